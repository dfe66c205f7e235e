//! Egress: the proxy must be reachable, and everything around it must not.

use std::{
    io::{self, Read, Write},
    mem::size_of_val,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::{Duration, Instant},
};

use super::{Host, expect, must_fail};
use crate::raw::call;

const ROW: u32 = 73;
const PROXY: u16 = 3_128;
/// A host that is not reached is known at once; one that has to be waited for was on its way.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Time for which the proxy is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn try_all(host: &Host<'_>) {
    let answer = ask();
    let expected = host.fact("proxy");
    let held = answer.as_deref().is_ok_and(|answer| answer == expected);
    expect(
        ROW,
        "the proxy answers, and is the run's own",
        held,
        &format!("{answer:?}"),
    );
    elsewhere(host);
    names();
    take_its_place();
    expect(
        ROW,
        "a server of the run's own can be talked to",
        own_server().is_ok(),
        "",
    );
    let told = std::env::vars()
        .filter(|(_, value)| value == "http://127.0.0.1:3128")
        .count();
    expect(
        ROW,
        "the environment tells of the proxy",
        told == 6,
        &told.to_string(),
    );
}

/// Returns the proxy's answer to one line.
pub(super) fn ask() -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, PROXY)), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"ask\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn elsewhere(host: &Host<'_>) {
    let own = host
        .fact("address")
        .parse()
        .ok()
        .map(|address: IpAddr| (address, PROXY));
    let listening = host.fact("tcp").parse().unwrap_or(0);
    let targets = [
        (IpAddr::V4(Ipv4Addr::new(1, 1, 1, 1)), 443),
        (IpAddr::V4(Ipv4Addr::new(8, 8, 8, 8)), PROXY),
        (IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80),
        (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), PROXY),
        (
            IpAddr::V6(Ipv6Addr::new(0x2606, 0x4700, 0, 0, 0, 0, 0, 0x1111)),
            443,
        ),
        (IpAddr::V4(Ipv4Addr::LOCALHOST), listening),
        (IpAddr::V6(Ipv6Addr::LOCALHOST), PROXY),
    ];
    for (address, port) in targets.into_iter().chain(own) {
        let target = SocketAddr::new(address, port);
        let (reached, took) = tried(|| TcpStream::connect_timeout(&target, 5 * AT_ONCE).is_ok());
        expect(
            ROW,
            &format!("TCP to {address} port {port}"),
            !reached && took < AT_ONCE,
            &format!("{took:?}"),
        );
    }
    for address in [Ipv4Addr::new(8, 8, 8, 8), Ipv4Addr::new(10, 0, 0, 1)] {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
        must_fail(
            ROW,
            "UDP to a name server",
            socket.and_then(|socket| socket.send_to(b"out", (address, 53))),
        );
    }
}

/// Whether something ever works, and how long it takes at its quickest: what waits for an answer does so each time,
/// what a busy machine holds up is not late each time.
fn tried(attempt: impl Fn() -> bool) -> (bool, Duration) {
    let (mut worked, mut quickest) = (false, Duration::MAX);
    for _ in 0..3 {
        let began = Instant::now();
        worked |= attempt();
        quickest = quickest.min(began.elapsed());
    }
    (worked, quickest)
}

/// No name resolves, and lookups fail without a timeout.
fn names() {
    let (found, took) = tried(|| ("example.com", 443).to_socket_addrs().is_ok());
    expect(
        ROW,
        "a name of the web is looked up",
        !found && took < 5 * AT_ONCE,
        &format!("{took:?}"),
    );
}

/// Binds the proxy's port with every option that lets sockets share one.
fn take_its_place() {
    for option in [libc::SO_REUSEADDR, libc::SO_REUSEPORT] {
        for (name, family, address) in [
            ("127.0.0.1", libc::AF_INET, Ipv4Addr::LOCALHOST),
            ("0.0.0.0", libc::AF_INET, Ipv4Addr::UNSPECIFIED),
            ("::", libc::AF_INET6, Ipv4Addr::UNSPECIFIED),
        ] {
            let bound = bind_with(option, family, address);
            expect(
                ROW,
                &format!("bind {name} with option {option}"),
                bound == Err(libc::EADDRINUSE),
                &format!("{bound:?}"),
            );
        }
    }
}

fn bind_with(option: i32, family: i32, address: Ipv4Addr) -> Result<usize, i32> {
    let number = |value: i32| usize::try_from(value).unwrap_or(0);
    let fd = call(
        libc::SYS_socket,
        [number(family), number(libc::SOCK_STREAM), 0, 0, 0, 0],
    )?;
    // SAFETY: the descriptor is new and ours.
    let socket = unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap_or(-1)) };
    let fd = number(socket.as_raw_fd());
    let on = 1_i32;
    let value = (&raw const on).addr();
    call(
        libc::SYS_setsockopt,
        [
            fd,
            number(libc::SOL_SOCKET),
            number(option),
            value,
            size_of_val(&on),
            0,
        ],
    )?;
    if family == libc::AF_INET6 {
        // SAFETY: an all-zero address is a valid one: the unspecified address.
        let mut any: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
        any.sin6_family = u16::try_from(family).unwrap_or(0);
        any.sin6_port = PROXY.to_be();
        return call(
            libc::SYS_bind,
            [fd, (&raw const any).addr(), size_of_val(&any), 0, 0, 0],
        );
    }
    // SAFETY: an all-zero address is a valid one.
    let mut name: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    name.sin_family = u16::try_from(family).unwrap_or(0);
    name.sin_port = PROXY.to_be();
    name.sin_addr.s_addr = u32::from(address).to_be();
    call(
        libc::SYS_bind,
        [fd, (&raw const name).addr(), size_of_val(&name), 0, 0, 0],
    )
}

fn own_server() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    server.write_all(b"x")?;
    client.read_exact(&mut [0])
}
