//! Memory in the buffers of all sockets of a network namespace, including those that no process has open, as reported by
//! `NETLINK_SOCK_DIAG`.

use std::{cell::Cell, io, os::fd::OwnedFd};

use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with},
};

/// `SOCK_DIAG_BY_FAMILY`, the request and its answers.
const BY_FAMILY: u16 = 20;
const HEADER: usize = 16;
/// Offset of the number of the question in the header of a message.
const NUMBER_AT: usize = 8;
const DONE: u16 = 3;
const ERROR: u16 = 2;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;
/// `UDIAG_SHOW_PEER | UDIAG_SHOW_RQLEN | UDIAG_SHOW_MEMINFO`.
const SHOW_UNIX: u32 = 0x34;
const SHOW_NETLINK: u32 = 1;
/// State of a socket that listens.
const LISTENS: u8 = 10;
/// Datagrams that a new network namespace lets wait for one receiver.
const DATAGRAMS: u64 = 10;

/// A family of sockets, and the format of the kernel's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unix,
    Internet { family: u8, protocol: u8 },
    Netlink,
}

/// Kinds of sockets that are asked for. The first has to be known to the kernel.
const KINDS: [Kind; 6] = [
    Kind::Unix,
    Kind::Netlink,
    Kind::internet(libc::AF_INET, libc::IPPROTO_TCP),
    Kind::internet(libc::AF_INET, libc::IPPROTO_UDP),
    Kind::internet(libc::AF_INET6, libc::IPPROTO_TCP),
    Kind::internet(libc::AF_INET6, libc::IPPROTO_UDP),
];

impl Kind {
    /// Families and protocols of the internet are small numbers.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the constants fit"
    )]
    const fn internet(family: i32, protocol: i32) -> Self {
        Self::Internet {
            family: family as u8,
            protocol: protocol as u8,
        }
    }
}

/// Queries the network namespace of the process that opened it.
pub(super) struct Sockets {
    netlink: OwnedFd,
    /// Maximum number of bytes that a closed sender leaves queued at a receiver.
    left_by_sender: u64,
    /// Number of the last question.
    asked: Cell<u32>,
    /// Last figure for each of `KINDS`, in bytes. 0 for one that the kernel does not know.
    known: [Cell<u64>; KINDS.len()],
}

impl Sockets {
    /// Open it before the system call filter is installed, which forbids it.
    pub(super) fn open(left_by_sender: u64) -> io::Result<Self> {
        let netlink = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::SOCK_DIAG),
        )?;
        let sockets = Self {
            netlink,
            left_by_sender,
            asked: Cell::new(0),
            known: Default::default(),
        };
        // A kernel without the unix part refuses the first question.
        sockets.ask(Kind::Unix)?;
        Ok(sockets)
    }

    /// Bytes in the buffers of all sockets.
    pub(super) fn held(&self) -> u64 {
        self.held_by(|_| true)
    }

    /// Bytes in the buffers of sockets that talk to the kernel: no control group counts them.
    pub(super) fn held_by_netlink(&self) -> u64 {
        self.held_by(|kind| kind == Kind::Netlink)
    }

    /// Bytes in the buffers of some kinds of sockets. A kind that cannot be queried now keeps its last figure.
    fn held_by(&self, wanted: impl Fn(Kind) -> bool) -> u64 {
        let kinds = std::iter::zip(KINDS, &self.known).filter(|(kind, _)| wanted(*kind));
        kinds
            .map(|(kind, known)| {
                if let Ok(bytes) = self.ask(kind) {
                    known.set(bytes);
                }
                known.get()
            })
            .sum()
    }

    fn ask(&self, kind: Kind) -> io::Result<u64> {
        let mut buffer = vec![0; 32 << 10];
        // Drain an abandoned answer: until then the kernel accepts no other question.
        while !matches!(
            recv(&self.netlink, buffer.as_mut_slice(), RecvFlags::DONTWAIT),
            Err(Errno::AGAIN)
        ) {}
        let number = self.asked.get().wrapping_add(1);
        self.asked.set(number);
        send(&self.netlink, &request(kind, number), SendFlags::empty())?;
        let mut sum = 0;
        loop {
            let (length, _) = match recv(&self.netlink, buffer.as_mut_slice(), RecvFlags::empty()) {
                Err(Errno::INTR) => continue,
                received => received?,
            };
            let datagram = buffer.get(..length).unwrap_or_default();
            if length >= HEADER && word(datagram, NUMBER_AT) != number {
                continue;
            }
            let part = read(kind, datagram, self.left_by_sender)?;
            sum += part.bytes;
            if part.last || length == 0 {
                return Ok(sum);
            }
        }
    }
}

fn request(kind: Kind, number: u32) -> Vec<u8> {
    let mut body = Vec::new();
    match kind {
        Kind::Unix => {
            body.extend([u8::try_from(libc::AF_UNIX).unwrap_or(0), 0, 0, 0]);
            // Every state, any socket.
            for word in [u32::MAX, 0, SHOW_UNIX, 0, 0] {
                body.extend(word.to_ne_bytes());
            }
        }
        Kind::Internet { family, protocol } => {
            body.extend([family, protocol, 1 << 6, 0]);
            body.extend(u32::MAX.to_ne_bytes());
            body.extend([0; 48]);
        }
        Kind::Netlink => {
            body.extend([u8::try_from(libc::AF_NETLINK).unwrap_or(0), u8::MAX, 0, 0]);
            for word in [0, SHOW_NETLINK, 0, 0] {
                body.extend(word.to_ne_bytes());
            }
        }
    }
    let length = u32::try_from(HEADER + body.len()).unwrap_or(0);
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(DUMP.to_ne_bytes());
    message.extend(number.to_ne_bytes());
    message.extend([0; 4]);
    message.extend(body);
    message
}

/// Content of one datagram of an answer.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    bytes: u64,
    last: bool,
}

fn read(kind: Kind, mut datagram: &[u8], left_by_sender: u64) -> io::Result<Part> {
    let mut bytes = 0;
    while let Some((header, _)) = datagram.split_at_checked(HEADER) {
        let length = word(header, 0) as usize;
        let Some(body) = datagram.get(HEADER..length) else {
            break;
        };
        match half_word(header, 4) {
            DONE => return Ok(Part { bytes, last: true }),
            ERROR => {
                let errno = word(body, 0).cast_signed().wrapping_neg();
                return Err(io::Error::from_raw_os_error(errno));
            }
            _ => bytes += of_socket(kind, body, left_by_sender),
        }
        datagram = datagram.get(aligned(length)..).unwrap_or_default();
    }
    Ok(Part { bytes, last: false })
}

/// Bytes held for one socket.
fn of_socket(kind: Kind, body: &[u8], left_by_sender: u64) -> u64 {
    let (fixed, memory) = match kind {
        Kind::Unix => (16, 5),
        Kind::Internet { .. } => (72, 7),
        Kind::Netlink => (28, 0),
    };
    let mut has_peer = false;
    let mut waiting = 0;
    let mut held = 0;
    let mut attributes = body.get(fixed..).unwrap_or_default();
    while attributes.len() >= 4 {
        let length = usize::from(half_word(attributes, 0));
        let number = half_word(attributes, 2);
        let Some(value) = attributes.get(4..length) else {
            break;
        };
        match (kind, number) {
            (_, number) if number == memory => held = in_buffers(value),
            // A peer that is closed has no number.
            (Kind::Unix, 2) => has_peer = word(value, 0) != 0,
            (Kind::Unix, 4) => waiting = u64::from(word(value, 0)),
            _ => {}
        }
        attributes = attributes.get(aligned(length)..).unwrap_or_default();
    }
    if kind != Kind::Unix || waiting == 0 {
        return held;
    }
    // Data queued for a receiver is counted for its sender. Once the sender is closed, it is not counted at all.
    let stream = body.get(1) != Some(&u8::try_from(libc::SOCK_DGRAM).unwrap_or(0));
    let senders = match (body.get(2), stream) {
        (Some(&LISTENS), _) => waiting,
        (_, true) => u64::from(!has_peer),
        (_, false) => DATAGRAMS,
    };
    held + senders * left_by_sender
}

/// Bytes as `struct sk_meminfo` has them: received, queued to be sent, options, and not yet taken in.
fn in_buffers(meminfo: &[u8]) -> u64 {
    let at = |index: usize| u64::from(word(meminfo, 4 * index));
    // Data on its way to another socket of the machine is also queued.
    at(0) + at(2).max(at(5)) + at(6) + at(7)
}

/// The number at an offset; 0 beyond the end.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|word| word.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}

fn half_word(bytes: &[u8], at: usize) -> u16 {
    bytes
        .get(at..at + 2)
        .and_then(|word| word.try_into().ok())
        .map_or(0, u16::from_ne_bytes)
}

/// Messages and attributes begin at multiples of 4. A length of 0 would loop forever.
fn aligned(length: usize) -> usize {
    length.max(1).next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute(number: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        [&length.to_ne_bytes()[..], &number.to_ne_bytes(), value].concat()
    }

    fn meminfo(received: u32, in_flight: u32, queued: u32) -> Vec<u8> {
        [received, 9, in_flight, 9, 9, queued, 1, 2, 9]
            .into_iter()
            .flat_map(u32::to_ne_bytes)
            .collect()
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + body.len()).unwrap();
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat()
    }

    #[test]
    fn buffers_are_added_up_until_the_last_part() {
        for (kind, fixed, number) in [(KINDS[0], 16, 5), (KINDS[2], 72, 7), (KINDS[1], 28, 0)] {
            let one = [vec![0; fixed], attribute(number, &meminfo(100, 20, 300))].concat();
            let two = [vec![0; fixed], attribute(number, &meminfo(0, 40, 0))].concat();
            let datagram = [message(BY_FAMILY, &one), message(BY_FAMILY, &two)].concat();
            let part = read(kind, &datagram, 1_000).unwrap();
            assert_eq!((part.bytes, part.last), (403 + 43, false));
            let last = [datagram, message(DONE, &[0; 4])].concat();
            assert!(read(kind, &last, 1_000).unwrap().last);
        }
        let refused = message(ERROR, &(-libc::ENOENT).to_ne_bytes());
        let error = read(KINDS[0], &refused, 1_000).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn what_closed_senders_left_is_counted_at_its_most() {
        let unix = |kind: u8, state: u8, peer: u32, waiting: u32| {
            let mut body = vec![1, kind, state, 0];
            body.extend([0; 12]);
            body.extend(attribute(2, &peer.to_ne_bytes()));
            body.extend(attribute(4, &[waiting.to_ne_bytes(), [0; 4]].concat()));
            of_socket(Kind::Unix, &body, 1_000)
        };
        assert_eq!(unix(1, 1, 7, 70), 0, "counted with its peer");
        assert_eq!(unix(1, 1, 0, 70), 1_000);
        assert_eq!(unix(1, 1, 0, 0), 0);
        assert_eq!(unix(1, LISTENS, 0, 70), 70_000);
        assert_eq!(unix(2, 7, 7, 70), 10_000);
    }

    proptest! {
        #[test]
        fn any_answer_is_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            for kind in KINDS {
                let _some_sum = read(kind, &bytes, 1_000);
                of_socket(kind, &bytes, 1_000);
            }
        }
    }
}
