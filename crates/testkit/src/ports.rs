//! Ports for third-party servers that need a fixed port: they do not accept 0, or do not report the port that they got.

use std::{
    collections::HashSet,
    fs,
    net::{Ipv4Addr, TcpListener},
};

/// Below the range that the system uses for outgoing connections.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Ports of 127.0.0.1 that were free when checked. Another process may take one first. A caller that starts a server
/// checks [`listens`] once the server reports ready, and tries the next port if the server exits or does not listen.
pub fn free_ports() -> impl Iterator<Item = u16> {
    // Tests that start together have neighbouring process ids.
    let skipped = usize::try_from(std::process::id()).unwrap_or_default() * 7 % PORTS.len();
    let ports = PORTS.cycle().skip(skipped).take(PORTS.len());
    ports.filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
}

/// Whether a process has a socket that listens on the port. The server's own report may be wrong: some servers report
/// ready even if they failed to bind.
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

/// The socket of a line of `/proc/net/tcp`, as a descriptor shows it, if it listens on the port.
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
        // The first process of the machine listens on none of our ports.
        assert!(!listens(1, port));
        drop(taken);
        assert!(!listens(own, port));
    }
}
