//! Egress of a sandbox: one socket that listens on the sandbox's loopback address and that the engine accepts on.
//!
//! The launcher binds it in the run's network namespace before anything untrusted runs there, so no process in the sandbox can
//! take its port. It then sends the socket to the engine, which serves a proxy on it. There is no other egress: no route, no name
//! server, no socket of the host. Connections on a socket belong to one run; the engine does not distinguish runs by address.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
    os::fd::OwnedFd,
};

use rustix::net::{Shutdown, shutdown};

use crate::types::Egress;

/// Port of the proxy inside of the sandbox.
pub(crate) const PORT: u16 = 3_128;

/// Binds the socket in this network namespace.
pub(crate) fn bind() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, PORT))
}

/// The proxy variables for programs: in both spellings, because some programs know only one.
pub(crate) fn environment(egress: Egress) -> Vec<(String, String)> {
    if egress == Egress::None {
        return Vec::new();
    }
    let proxy = format!("http://{}:{PORT}", Ipv4Addr::LOCALHOST);
    let through = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].map(|name| (name, proxy.as_str()));
    let direct = ("NO_PROXY", "localhost,127.0.0.1,::1");
    through
        .into_iter()
        .chain([direct])
        .flat_map(|(name, value)| [name.to_owned(), name.to_lowercase()].map(|name| (name, value.to_owned())))
        .collect()
}

/// The engine's end of one sandbox's egress. Dropping it with the sandbox shuts the socket down, even if another owner has it by
/// then.
#[derive(Debug)]
pub(crate) struct WayOut {
    untaken: Option<TcpListener>,
    socket: OwnedFd,
}

impl WayOut {
    /// Wraps the socket that came from the launcher.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        let listener = TcpListener::from(socket.try_clone()?);
        listener.set_nonblocking(true)?;
        Ok(Self {
            untaken: Some(listener),
            socket,
        })
    }

    /// The listener, once.
    pub(crate) const fn take(&mut self) -> Option<TcpListener> {
        self.untaken.take()
    }
}

impl Drop for WayOut {
    fn drop(&mut self) {
        // Wakes a pending accept with an error. A socket that is already shut down is fine.
        let _shut_already = shutdown(&self.socket, Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_of_the_proxy_in_both_spellings_or_not_at_all() {
        assert_eq!(environment(Egress::None), []);
        let told = environment(Egress::Proxy);
        for name in ["HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            let expected = (name.to_owned(), "http://127.0.0.1:3128".to_owned());
            assert!(told.contains(&expected), "{name}: {told:?}");
        }
        assert!(told.contains(&("no_proxy".to_owned(), "localhost,127.0.0.1,::1".to_owned())));
        assert_eq!(told.len(), 8);
    }

    #[test]
    fn the_socket_is_handed_out_once_and_closed_with_the_sandbox() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut way = WayOut::new(listener.into()).unwrap();
        let taken = way.take().unwrap();
        assert!(way.take().is_none());
        let _client = std::net::TcpStream::connect(address).unwrap();
        assert!(taken.accept().is_ok());
        assert_eq!(taken.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(way);
        assert_ne!(taken.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(std::net::TcpStream::connect(address).is_err());
    }
}
