//! Ports for servers of others that have to be told theirs: they take no 0, or do not say which one they have got.

use std::{
    collections::HashSet,
    fs,
    net::{Ipv4Addr, TcpListener},
};

/// Below those that the system gives to outgoing connections.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Ports of 127.0.0.1 that are free at the moment of the look. Another process may be faster: who starts a server asks
/// [`listens`] once it says that it is ready, and takes the next where it ends or does not.
pub fn free_ports() -> impl Iterator<Item = u16> {
    // Tests that start together are neighbours by their numbers.
    let skipped = usize::try_from(std::process::id()).unwrap_or_default() * 7 % PORTS.len();
    let ports = PORTS.cycle().skip(skipped).take(PORTS.len());
    ports.filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
}

/// Whether a process has a socket that listens on the port. What it says of itself may be wrong: some say that they are ready
/// whatever came of it.
pub fn listens(pid: u32, port: u16) -> bool {
    let listening: HashSet<String> = ["tcp", "tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok())
        .flat_map(|table| {
            let sockets = table.lines().filter_map(|line| listener(line, port));
            sockets.collect::<Vec<_>>()
        })
        .collect();
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    descriptors
        .filter_map(|descriptor| fs::read_link(descriptor.ok()?.path()).ok())
        .any(|target| target.to_str().is_some_and(|target| listening.contains(target)))
}

/// The socket of a line of `/proc/net/tcp`, as a descriptor shows it, where it listens on the port.
fn listener(line: &str, port: u16) -> Option<String> {
    const LISTEN: &str = "0A";
    let mut fields = line.split_whitespace();
    let (_, local) = fields.nth(1)?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?;
    let is_it = state == LISTEN && u16::from_str_radix(local, 16) == Ok(port);
    is_it.then(|| format!("socket:[{inode}]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_nobodys_and_one_that_is_listened_on_is_its_process_s() {
        let own = std::process::id();
        let port = free_ports().next().unwrap();
        assert!(PORTS.contains(&port));
        let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(listens(own, port));
        // The first process of the machine listens on nothing of ours.
        assert!(!listens(1, port));
        drop(taken);
        assert!(!listens(own, port));
    }
}
