//! The host's network and every way to it.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr as UnixAddr, UnixStream},
    },
    time::Duration,
};

use super::{Host, expect, must_be_refused, must_fail};
use crate::raw::call;

pub(super) fn try_all(host: &Host<'_>) {
    let port: u16 = host.fact("tcp").parse().unwrap_or(0);
    let udp: u16 = host.fact("udp").parse().unwrap_or(0);
    must_fail(
        15,
        "TCP to the host's 127.0.0.1",
        connect(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
    );
    must_fail(
        15,
        "TCP to the host's ::1",
        connect(IpAddr::V6(Ipv6Addr::LOCALHOST), port),
    );
    if let Ok(address) = host.fact("address").parse() {
        at_once(70, "TCP to the host's own address", &connect(address, port));
    }
    for (address, port) in [("169.254.169.254", 80), ("1.1.1.1", 443), ("10.0.0.1", 22)] {
        if let Ok(ip) = address.parse() {
            at_once(16, &format!("TCP to {address}"), &connect(ip, port));
        }
    }
    // Inside a namespace this reaches a loopback of our own; the caller looks whether anything came out.
    let _what_counts_is_outside = datagram(Ipv4Addr::LOCALHOST, udp);
    must_fail(
        17,
        "UDP to a name server",
        datagram(Ipv4Addr::new(1, 1, 1, 1), 53),
    );
    let name = UnixAddr::from_abstract_name(host.fact("abstract"));
    must_fail(
        18,
        "the host's abstract socket",
        name.and_then(|name| UnixStream::connect_addr(&name)),
    );
    must_fail(
        19,
        "the host's socket in the file system",
        UnixStream::connect(host.fact("socket")),
    );
    for path in [
        "/var/run/docker.sock",
        "/run/dbus/system_bus_socket",
        "/run/systemd/private",
    ] {
        must_fail(19, path, UnixStream::connect(path));
    }
    families();
}

/// A connection must be refused at once: one that times out was on its way.
fn at_once(row: u32, name: &str, result: &io::Result<TcpStream>) {
    let refusals = [libc::ENETUNREACH, libc::EPERM, libc::EACCES];
    let error = result.as_ref().err();
    let held = error
        .and_then(io::Error::raw_os_error)
        .is_some_and(|errno| refusals.contains(&errno));
    let detail = error.map_or_else(|| "connected".to_owned(), ToString::to_string);
    expect(row, name, held, &detail);
}

fn connect(address: IpAddr, port: u16) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&SocketAddr::new(address, port), Duration::from_millis(500))
}

fn datagram(address: Ipv4Addr, port: u16) -> io::Result<usize> {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?.send_to(b"out", (address, port))
}

fn families() {
    let kinds = [
        (20, "raw", libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
        (
            20,
            "raw IPv6",
            libc::AF_INET6,
            libc::SOCK_RAW,
            libc::IPPROTO_ICMPV6,
        ),
        (20, "ping", libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
        (20, "packet", libc::AF_PACKET, libc::SOCK_RAW, 0x0300),
        (20, "XDP", libc::AF_XDP, libc::SOCK_RAW, 0),
        (20, "ALG", libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
        (20, "KEY", libc::AF_KEY, libc::SOCK_RAW, 2),
        (20, "RDS", libc::AF_RDS, libc::SOCK_SEQPACKET, 0),
        (20, "TIPC", libc::AF_TIPC, libc::SOCK_STREAM, 0),
        (20, "CAN", libc::AF_CAN, libc::SOCK_RAW, 1),
        (20, "Bluetooth", libc::AF_BLUETOOTH, libc::SOCK_RAW, 1),
        (20, "SCTP", libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP),
        (
            20,
            "SCTP, one to many",
            libc::AF_INET,
            libc::SOCK_SEQPACKET,
            libc::IPPROTO_SCTP,
        ),
        (21, "VSOCK", libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        (21, "VSOCK datagrams", libc::AF_VSOCK, libc::SOCK_DGRAM, 0),
        (
            22,
            "netlink audit",
            libc::AF_NETLINK,
            libc::SOCK_RAW,
            libc::NETLINK_AUDIT,
        ),
        (
            22,
            "netlink uevent",
            libc::AF_NETLINK,
            libc::SOCK_RAW,
            libc::NETLINK_KOBJECT_UEVENT,
        ),
        (
            22,
            "netlink netfilter",
            libc::AF_NETLINK,
            libc::SOCK_RAW,
            libc::NETLINK_NETFILTER,
        ),
        (
            22,
            "netlink generic",
            libc::AF_NETLINK,
            libc::SOCK_RAW,
            libc::NETLINK_GENERIC,
        ),
    ];
    for (row, name, family, kind, protocol) in kinds {
        let arguments = [family, kind, protocol, 0, 0, 0].map(|value| usize::try_from(value).unwrap_or(0));
        must_be_refused(row, &format!("socket: {name}"), call(libc::SYS_socket, arguments));
    }
    let vsock = usize::try_from(libc::AF_VSOCK).unwrap_or(0) | 1 << 32;
    must_be_refused(
        21,
        "socket: VSOCK with high bits",
        call(libc::SYS_socket, [vsock, 1, 0, 0, 0, 0]),
    );
}
