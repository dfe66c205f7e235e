//! The addresses of this machine at the time of each request. Untrusted requests must not reach them.
//!
//! The kernel reports changes of addresses (rtnetlink). A check polls a socket for reports, and reads the addresses again only
//! after a change. Without such a socket, they are read again after two seconds.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::OwnedFd,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SocketFlags, SocketType, bind, netlink::SocketAddrNetlink, recv,
        socket_with,
    },
};
use tokio::time::Instant;

use crate::address::carried;

/// Maximum age of the addresses if the kernel does not report changes.
const MAX_AGE: Duration = Duration::from_secs(2);

/// Subscribed kernel messages: IPv4 addresses, IPv4 routes, IPv6 addresses (`RTMGRP_…`). An IPv4 address appears in the table
/// that we read together with its local route, which is after the message about the address.
const GROUPS: u32 = 0x10 | 0x40 | 0x100;

/// `RTM_NEWADDR` and `RTM_DELADDR`.
const ADDRESS_MESSAGES: [u16; 2] = [20, 21];
/// `RTM_NEWROUTE` and `RTM_DELROUTE`.
const ROUTE_MESSAGES: [u16; 2] = [24, 25];
/// `RTN_LOCAL`: the type of the route of an own address.
const LOCAL: u8 = 2;
/// Length of the header of a message (`nlmsghdr`).
const HEADER: usize = 16;
/// Offset of the type of a route in its message (`rtmsg`), after the header.
const ROUTE_TYPE: usize = HEADER + 7;

/// Addresses of the machine of this engine.
#[derive(Clone, Debug)]
pub(crate) enum OwnAddresses {
    /// Fixed addresses.
    Given(Vec<IpAddr>),
    /// Addresses of this machine, read on demand.
    Current(Arc<Mutex<Current>>),
}

#[derive(Debug)]
pub(crate) struct Current {
    changes: Option<OwnedFd>,
    addresses: Vec<IpAddr>,
    /// None if they could not be read.
    read_at: Option<Instant>,
}

impl OwnAddresses {
    /// Uses these addresses, in any form.
    pub(crate) fn given(addresses: Vec<IpAddr>) -> Self {
        Self::Given(addresses.into_iter().map(carried).collect())
    }

    /// Reads the addresses of this machine. Fails if the kernel does not list them.
    pub(crate) fn current() -> io::Result<Self> {
        // We open the socket before we read the list, so that no change in between is missed.
        let mut current = Current {
            changes: changes().ok(),
            addresses: Vec::new(),
            read_at: None,
        };
        current.read()?;
        Ok(Self::Current(Arc::new(Mutex::new(current))))
    }

    /// Whether `ip` is one of them, in any form. True for every address while the kernel does not list them.
    pub(crate) fn contain(&self, ip: IpAddr) -> bool {
        let ip = carried(ip);
        match self {
            Self::Given(addresses) => addresses.contains(&ip),
            Self::Current(current) => {
                let mut current = current.lock();
                let is_stale = current.has_changed() || current.read_at.is_none();
                (is_stale && current.read().is_err()) || current.addresses.contains(&ip)
            }
        }
    }
}

impl Current {
    fn read(&mut self) -> io::Result<()> {
        self.read_at = None;
        self.addresses = own_addresses()?.into_iter().map(carried).collect();
        self.read_at = Some(Instant::now());
        Ok(())
    }

    /// Whether an address has changed since the last call.
    fn has_changed(&mut self) -> bool {
        let Some(socket) = &self.changes else {
            return self.read_at.is_none_or(|at| at.elapsed() >= MAX_AGE);
        };
        let (mut buffer, mut has_changed) = ([0; 8 * 1024], false);
        loop {
            match recv(socket, &mut buffer[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                // A truncated message can be about any change.
                Ok((_, length)) => {
                    has_changed |= buffer.get(..length).is_none_or(tells_of_own_addresses);
                }
                Err(Errno::AGAIN) => return has_changed,
                Err(Errno::INTR) => {}
                // The kernel has dropped messages.
                Err(Errno::NOBUFS) => has_changed = true,
                Err(_) => {
                    self.changes = None;
                    return true;
                }
            }
        }
    }
}

/// Opens a socket on which the kernel reports changes of addresses.
fn changes() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
    Ok(socket)
}

/// Whether one of these kernel messages is about an address of this machine. Invalid messages count as well.
fn tells_of_own_addresses(mut messages: &[u8]) -> bool {
    while !messages.is_empty() {
        let length = messages
            .first_chunk::<4>()
            .and_then(|length| usize::try_from(u32::from_ne_bytes(*length)).ok())
            .filter(|length| (HEADER..=messages.len()).contains(length));
        let (Some(length), Some([low, high])) = (length, messages.get(4..6)) else {
            return true;
        };
        let kind = u16::from_ne_bytes([*low, *high]);
        let is_local_route = || messages.get(ROUTE_TYPE).is_none_or(|kind| *kind == LOCAL);
        if ADDRESS_MESSAGES.contains(&kind) || (ROUTE_MESSAGES.contains(&kind) && is_local_route()) {
            return true;
        }
        // Each message is aligned to four bytes.
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    false
}

/// Returns the addresses of this machine's interfaces in the current network namespace. Fails if the kernel does not list them.
fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let mut addresses = ipv4_of(&fs::read_to_string("/proc/net/fib_trie")?);
    match fs::read_to_string("/proc/net/if_inet6") {
        Ok(text) => addresses.extend(ipv6_of(&text)),
        // A kernel without IPv6 has no such file, and no IPv6 addresses.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(addresses)
}

/// Parses the routing table: an address line, followed by an indented line that marks it as local.
fn ipv4_of(table: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut leaf: Option<Ipv4Addr> = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(leaf.map(IpAddr::V4).filter(|ip| !found.contains(ip)));
        }
    }
    found
}

/// Parses the list of interfaces: 32 hexadecimal digits at the start of each line.
fn ipv6_of(list: &str) -> Vec<IpAddr> {
    let address = |line: &str| u128::from_str_radix(line.split_whitespace().next()?, 16).ok();
    list.lines()
        .filter_map(address)
        .map(|bits| Ipv6Addr::from_bits(bits).into())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, process::Command};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n        |-- 198.51.100.7\n           \
                     /32 host LOCAL\n        |-- 198.51.100.255\n           /32 link BROADCAST\nLocal:\n        |-- \
                     198.51.100.7\n           /32 host LOCAL\n";
        assert_eq!(ipv4_of(table), ["198.51.100.7".parse::<IpAddr>().unwrap()]);
        let list = "20010db8000000000000000000000002 04 40 00 82     eth0\n\nnonsense\n";
        assert_eq!(ipv6_of(list), ["2001:db8::2".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn this_machine_has_its_loopback_address() {
        let own = OwnAddresses::current().unwrap();
        for ip in ["127.0.0.1", "::ffff:127.0.0.1"] {
            assert!(own.contain(ip.parse().unwrap()), "{own:?}");
        }
        assert!(!own.contain("8.8.8.8".parse().unwrap()), "{own:?}");
    }

    fn ip(arguments: &str) {
        #[expect(
            clippy::disallowed_methods,
            reason = "the test stands in for an administrator"
        )]
        let done = Command::new("ip").args(arguments.split(' ')).status().unwrap();
        assert!(done.success(), "ip {arguments}");
    }

    /// A command in a new network namespace, so that it may change addresses.
    fn in_a_network_of_its_own(program: impl AsRef<OsStr>) -> Command {
        #[expect(
            clippy::disallowed_methods,
            reason = "only another process can be in another network"
        )]
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net"]).arg(program);
        command
    }

    /// Returns the reason why this host cannot create such a namespace.
    fn missing() -> Option<String> {
        let tried = in_a_network_of_its_own("ip")
            .args(["link", "set", "lo", "up"])
            .output();
        match tried {
            Ok(done) if done.status.success() => None,
            Ok(done) => Some(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
            Err(error) => Some(format!("unshare is not installed: {error}")),
        }
    }

    /// Runs a test of this file in a new network namespace.
    fn run(test: &str) {
        let done = in_a_network_of_its_own(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(
            done.status.success() && said.contains("1 passed"),
            "{said}{done:?}"
        );
    }

    #[test]
    fn an_address_that_comes_later_is_an_own_one_and_one_that_has_gone_is_not() {
        if let Some(why) = missing() {
            println!("NOT CHECKED: addresses that come and go: this host makes no network for a test: {why}");
            return;
        }
        run("own::tests::addresses_come_and_go");
        run("own::tests::addresses_come_and_go_unannounced");
    }

    #[test]
    #[ignore = "changes the addresses of the machine: started in a network of its own by another test"]
    fn addresses_come_and_go() {
        let own = OwnAddresses::current().unwrap();
        let OwnAddresses::Current(current) = &own else {
            panic!("the addresses of this machine")
        };
        assert!(current.lock().changes.is_some());
        let [four, six] = ["8.8.4.4", "2a00:1450::5"].map(|ip| ip.parse::<IpAddr>().unwrap());
        ip("link set lo up");
        for _ in 0..20 {
            assert!(!own.contain(four) && !own.contain(six));
            ip("addr add 8.8.4.4/32 dev lo");
            assert!(own.contain(four));
            ip("addr add 2a00:1450::5/128 dev lo");
            assert!(own.contain(six));
            ip("addr del 8.8.4.4/32 dev lo");
            ip("addr del 2a00:1450::5/128 dev lo");
        }
        // A route to another host does not require reading the addresses.
        let read_at = || current.lock().read_at;
        own.contain(four);
        let before = read_at();
        ip("route add 203.0.113.0/24 dev lo");
        assert!(!own.contain(four));
        assert_eq!(read_at(), before);
    }

    #[tokio::test(start_paused = true)]
    #[ignore = "changes the addresses of the machine: started in a network of its own by another test"]
    async fn addresses_come_and_go_unannounced() {
        let own = OwnAddresses::current().unwrap();
        let OwnAddresses::Current(current) = &own else {
            panic!("the addresses of this machine")
        };
        current.lock().changes = None;
        let four = "8.8.4.4".parse().unwrap();
        ip("link set lo up");
        ip("addr add 8.8.4.4/32 dev lo");
        tokio::time::advance(MAX_AGE).await;
        assert!(own.contain(four));
    }

    /// A kernel message: its header, its type, and a body.
    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + body.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn messages_about_own_addresses_are_told_from_others() {
        let route = |kind: u8| message(24, &[2, 32, 0, 0, 255, 2, 254, kind, 0, 0, 0, 0]);
        assert!(tells_of_own_addresses(&message(20, &[2, 32, 0, 0])));
        assert!(tells_of_own_addresses(&route(LOCAL)));
        assert!(!tells_of_own_addresses(&route(1)));
        assert!(tells_of_own_addresses(&[route(1), message(21, b"xyz")].concat()));
        assert!(!tells_of_own_addresses(&[route(1), message(16, b"x")].concat()));
        assert!(tells_of_own_addresses(&[1, 2, 3]));
        assert!(tells_of_own_addresses(&[0; 64]));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_stay(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _told = tells_of_own_addresses(&bytes);
        }
    }
}
