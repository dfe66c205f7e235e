//! Parses the first message of a TLS connection to get its server name.
//!
//! The bytes are untrusted. The parser never indexes without a check, rejects everything that a strict server rejects, and
//! rejects a hello in which another parser could find a different name. For the reasons not to use rustls see
//! `docs/decisions/0018-the-name-in-a-tls-hello-is-read-by-own-code.md`.

/// Maximum size of a hello with its record headers, in bytes. Real ones have some hundreds to some thousands.
const MAX_BYTES: usize = 16 * 1024;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// Maximum length of a host name, in bytes.
const MAX_NAME: usize = 253;
/// Maximum length of a label, in bytes.
const MAX_LABEL: usize = 63;
/// Maximum content of a record, in bytes.
const MAX_RECORD: usize = 1 << 14;

/// Result of parsing the bytes so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hello {
    /// A valid prefix of a hello.
    Incomplete,
    /// A complete hello, with its server name as sent.
    Whole(Option<String>),
}

/// Reason why the bytes are not a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoHello(&'static str);

const NOT_TLS: NoHello = NoHello("the connection does not begin with a TLS handshake");
const MALFORMED: NoHello = NoHello("the TLS handshake is malformed");

/// Parses a hello from any number of records. Reads each byte once, however the bytes arrive.
#[derive(Debug, Default)]
pub(super) struct Reader {
    bytes: Vec<u8>,
    /// Length of the complete records in `bytes`.
    read: usize,
    /// Content of these records.
    message: Vec<u8>,
}

impl Reader {
    /// Adds bytes and returns the result for all bytes so far. Must not be called after an error or a complete hello.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Hello, NoHello> {
        self.bytes.extend_from_slice(bytes);
        loop {
            if let Some(whole) = whole(&self.message)? {
                return Ok(Hello::Whole(name_in(whole)?));
            }
            if !self.read_record()? {
                break;
            }
        }
        if self.room() == 0 {
            return Err(NoHello("the TLS handshake is too large"));
        }
        Ok(Hello::Incomplete)
    }

    /// Maximum number of further bytes.
    pub(super) fn room(&self) -> usize {
        MAX_BYTES.saturating_sub(self.bytes.len())
    }

    /// Returns all bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends the content of the next record to the message. `false`: the record is incomplete.
    fn read_record(&mut self) -> Result<bool, NoHello> {
        let unread = self.bytes.get(self.read..).unwrap_or_default();
        let mut rest = Bytes(unread);
        // Reject bytes that are already invalid without waiting for the whole record.
        if unread.first().is_some_and(|kind| *kind != HANDSHAKE)
            || unread.get(1).is_some_and(|major| *major != 3)
        {
            return Err(if self.message.is_empty() {
                NOT_TLS
            } else {
                MALFORMED
            });
        }
        if rest.take(3).is_none() {
            return Ok(false);
        }
        let Some(length) = rest.u16() else {
            return Ok(false);
        };
        let length = usize::from(length);
        if length == 0 || length > MAX_RECORD {
            return Err(MALFORMED);
        }
        let Some(fragment) = rest.take(length) else {
            return Ok(false);
        };
        self.message.extend_from_slice(fragment);
        self.read += 5 + length;
        Ok(true)
    }
}

/// Returns the body of the hello once it is complete.
fn whole(message: &[u8]) -> Result<Option<Bytes<'_>>, NoHello> {
    let mut rest = Bytes(message);
    let Some(kind) = rest.u8() else {
        return Ok(None);
    };
    if kind != CLIENT_HELLO {
        return Err(MALFORMED);
    }
    let Some(length) = rest.take(3) else {
        return Ok(None);
    };
    let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    if length > MAX_BYTES {
        return Err(NoHello("the TLS handshake is too large"));
    }
    Ok(rest.take(length).map(Bytes))
}

/// Skips version, random, session, suites and compression, and looks for the extension with the name.
fn name_in(mut hello: Bytes<'_>) -> Result<Option<String>, NoHello> {
    hello.take(2 + 32).ok_or(MALFORMED)?;
    hello.vector_u8().ok_or(MALFORMED)?;
    hello.vector_u16().ok_or(MALFORMED)?;
    hello.vector_u8().ok_or(MALFORMED)?;
    if hello.0.is_empty() {
        return Ok(None);
    }
    let mut extensions = hello.vector_u16().ok_or(MALFORMED)?;
    if !hello.0.is_empty() {
        return Err(MALFORMED);
    }
    let mut name = None;
    while !extensions.0.is_empty() {
        let kind = extensions.u16().ok_or(MALFORMED)?;
        let content = extensions.vector_u16().ok_or(MALFORMED)?;
        if kind == SERVER_NAME && name.replace(server_name(content)?).is_some() {
            return Err(MALFORMED);
        }
    }
    Ok(name)
}

/// Parses the list of names, which must contain exactly one.
fn server_name(mut content: Bytes<'_>) -> Result<String, NoHello> {
    let mut list = content.vector_u16().ok_or(MALFORMED)?;
    let kind = list.u8().ok_or(MALFORMED)?;
    let name = list.vector_u16().ok_or(MALFORMED)?;
    if kind != HOST_NAME || !list.0.is_empty() || !content.0.is_empty() || name.0.is_empty() {
        return Err(MALFORMED);
    }
    match std::str::from_utf8(name.0) {
        Ok(name) if is_host_name(name) => Ok(name.to_owned()),
        Ok(_) | Err(_) => Err(MALFORMED),
    }
}

/// Whether a text is a valid DNS name, with or without a trailing dot.
fn is_host_name(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.len() <= MAX_NAME && name.split('.').all(is_label)
}

/// The unread bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    fn vector_u8(&mut self) -> Option<Self> {
        let length = self.u8()?;
        self.take(length.into()).map(Bytes)
    }

    fn vector_u16(&mut self) -> Option<Self> {
        let length = self.u16()?;
        self.take(length.into()).map(Bytes)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(bytes: &[u8]) -> Result<Hello, NoHello> {
        Reader::default().push(bytes)
    }

    /// The server name extension with these names.
    fn names(names: &[&str]) -> Vec<u8> {
        let mut list = Vec::new();
        for name in names {
            list.push(HOST_NAME);
            list.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
            list.extend(name.as_bytes());
        }
        let mut content = u16::try_from(list.len()).unwrap().to_be_bytes().to_vec();
        content.extend(list);
        extension(SERVER_NAME, &content)
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_be_bytes().to_vec();
        bytes.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
        bytes.extend(content);
        bytes
    }

    fn message(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend([0, 2, 0x13, 1]);
        body.extend([1, 0]);
        body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
        body.extend(extensions);
        let mut message = vec![CLIENT_HELLO, 0];
        message.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
        message.extend(body);
        message
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for fragment in message.chunks(size) {
            bytes.extend([HANDSHAKE, 3, 1]);
            bytes.extend(u16::try_from(fragment.len()).unwrap().to_be_bytes());
            bytes.extend(fragment);
        }
        bytes
    }

    /// A hello for `name` in one record.
    pub(in crate::egress) fn hello_for(name: &str) -> Vec<u8> {
        records(&message(&names(&[name])), MAX_RECORD)
    }

    /// Returns a hello for `name` in records of one byte each.
    pub(in crate::egress) fn fragmented_hello_for(name: &str) -> Vec<u8> {
        records(&message(&names(&[name])), 1)
    }

    /// A hello without a name.
    pub(in crate::egress) fn nameless_hello() -> Vec<u8> {
        records(&message(&extension(43, &[2, 3, 4])), MAX_RECORD)
    }

    #[test]
    fn the_name_is_found_whole_and_fragmented() {
        let expected = Ok(Hello::Whole(Some("example.com".to_owned())));
        assert_eq!(parse(&hello_for("example.com")), expected);
        assert_eq!(parse(&fragmented_hello_for("example.com")), expected);
        assert_eq!(parse(&nameless_hello()), Ok(Hello::Whole(None)));
    }

    #[test]
    fn every_prefix_of_a_hello_is_incomplete() {
        for whole in [hello_for("example.com"), fragmented_hello_for("example.com")] {
            let (last, before) = whole.split_last().unwrap();
            let mut reader = Reader::default();
            for (end, byte) in before.iter().enumerate() {
                assert_eq!(parse(&whole[..end]), Ok(Hello::Incomplete), "{end}");
                assert_eq!(reader.push(&[*byte]), Ok(Hello::Incomplete), "{end}");
            }
            let expected = Ok(Hello::Whole(Some("example.com".to_owned())));
            assert_eq!(reader.push(&[*last]), expected);
            assert_eq!(reader.into_bytes(), whole);
        }
    }

    #[test]
    fn two_names_or_what_is_no_host_name_are_no_name() {
        let twice = [names(&["a.example"]), names(&["b.example"])].concat();
        for extensions in [
            names(&["a.example", "b.example"]),
            twice,
            names(&[""]),
            names(&[]),
        ] {
            assert_eq!(parse(&records(&message(&extensions), MAX_RECORD)), Err(MALFORMED));
        }
        for name in [
            "a\0.example",
            "a/b",
            "a..example",
            ".example",
            "..",
            "[::1]",
            &"a.".repeat(128),
        ] {
            assert_eq!(parse(&hello_for(name)), Err(MALFORMED), "{name}");
        }
    }

    /// Returns the name that rustls finds in a hello, if there is one. An error if rustls rejects the hello.
    fn found_by_rustls(hello: &[u8]) -> Result<Option<String>, ()> {
        let mut acceptor = rustls::server::Acceptor::default();
        let mut rest = hello;
        while !rest.is_empty() {
            acceptor.read_tls(&mut rest).map_err(drop)?;
        }
        let accepted = acceptor.accept().map_err(drop)?.ok_or(())?;
        Ok(accepted.client_hello().server_name().map(str::to_owned))
    }

    /// `docs/decisions/0018-the-name-in-a-tls-hello-is-read-by-own-code.md`
    #[test]
    fn rustls_lets_through_what_is_refused_here_and_the_other_way_round() {
        let hello = |names: &[u8]| {
            let signature_algorithms = extension(13, &[0, 2, 4, 3]);
            records(&message(&[names, &signature_algorithms].concat()), MAX_RECORD)
        };
        let named = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(
            found_by_rustls(&hello(&names(&["a.example"]))),
            named("a.example")
        );

        // A tunnel to another address would treat this as a hello without a name.
        let address = hello(&names(&["192.0.2.1"]));
        assert_eq!(found_by_rustls(&address), Ok(None));
        assert_eq!(parse(&address), Ok(Hello::Whole(Some("192.0.2.1".to_owned()))));

        // A server may use the second entry, which has an unknown type.
        let mut list = vec![0, 24, HOST_NAME, 0, 9];
        list.extend(b"a.example");
        list.extend([1, 0, 9]);
        list.extend(b"b.example");
        let entries = hello(&extension(SERVER_NAME, &list));
        assert_eq!(found_by_rustls(&entries), named("a.example"));
        assert_eq!(parse(&entries), Err(MALFORMED));

        // A server may accept a hello without signature algorithms.
        let old = hello_for("a.example");
        assert_eq!(found_by_rustls(&old), Err(()));
        assert_eq!(parse(&old), Ok(Hello::Whole(Some("a.example".to_owned()))));
    }

    #[test]
    fn what_is_not_tls_is_told_from_its_first_bytes() {
        assert_eq!(parse(b"S"), Err(NOT_TLS));
        assert_eq!(parse(b"SSH-2.0-x\r\n"), Err(NOT_TLS));
        assert_eq!(parse(&[HANDSHAKE, 2]), Err(NOT_TLS));
        assert_eq!(parse(&[HANDSHAKE, 3, 1, 0, 0]), Err(MALFORMED));
        assert_eq!(parse(&[HANDSHAKE, 3, 1, 0, 1, 2]), Err(MALFORMED));
        let endless = records(&[CLIENT_HELLO, 0xff, 0xff, 0xff], 4);
        assert!(parse(&endless).is_err());
        let slow = records(
            &[&[CLIENT_HELLO, 0, 0x3f, 0xff][..], &vec![0; MAX_BYTES]].concat(),
            1,
        );
        assert!(parse(&slow[..MAX_BYTES]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _parsed = parse(&bytes);
        }

        #[test]
        fn a_damaged_hello_never_panics_and_never_names_more_than_was_sent(
            at in 0_usize..90, byte: u8, size in 1_usize..90,
        ) {
            let mut bytes = records(&message(&names(&["example.com"])), size);
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(Hello::Whole(Some(name))) = parse(&bytes) {
                prop_assert!(name.len() <= 11 && name.is_ascii());
            }
        }

        #[test]
        fn fragments_make_no_difference(name in "[a-z]{1,20}\\.[a-z]{2,5}", size in 1_usize..200) {
            let bytes = records(&message(&names(&[&name])), size);
            prop_assert_eq!(parse(&bytes), Ok(Hello::Whole(Some(name))));
        }
    }
}
