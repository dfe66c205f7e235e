//! TLS hellos: the chunks do not affect the result, every byte is read once, and a server name is a valid host name from the
//! input.

use reader::{Hello, NoHello, Reader};

use crate::{Bounds, Input, Line};

#[path = "../../../crates/web/src/egress/hello.rs"]
mod reader;

const BOUNDS: Bounds = Bounds {
    memory: Line {
        base: 4096,
        per_byte: 8,
    },
    time: Line {
        base: 500_000,
        per_byte: 1_000,
    },
};
/// Maximum size of a hello, in bytes.
const MOST: usize = 16 << 10;

/// Checks one input.
pub fn check(data: &[u8]) {
    let input = Input::plain(data, MOST);
    let (whole, all) = BOUNDS.hold(input.bytes.len(), || read([&*input.bytes].into_iter()));
    let (pieces, kept) = BOUNDS.hold(input.bytes.len(), || read(input.chunks()));
    assert_eq!(whole, pieces, "chunks make a difference");
    assert!(all == input.bytes && all.starts_with(&kept), "bytes are lost");
    match whole {
        Ok(Hello::Whole(Some(name))) => {
            assert!(is_host_name(&name), "{name:?} is no host name");
            assert!(name.len() < input.bytes.len());
        }
        Ok(Hello::Incomplete) => assert!(input.bytes.len() < MOST, "nothing more may come"),
        Ok(Hello::Whole(None)) | Err(_) => {}
    }
}

fn read<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Result<Hello, NoHello>, Vec<u8>) {
    let mut reader = Reader::default();
    let mut found = Ok(Hello::Incomplete);
    for chunk in chunks {
        found = reader.push(chunk);
        if found != Ok(Hello::Incomplete) {
            break;
        }
    }
    (found, reader.into_bytes())
}

/// Whether a name is a valid DNS name.
fn is_host_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let (mut label, mut is_one) = (0, !name.is_empty() && name.len() <= 253);
    for byte in name.bytes().chain([b'.']) {
        match byte {
            b'.' => {
                is_one &= label > 0 && label < 64;
                label = 0;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => label += 1,
            _ => return false,
        }
    }
    is_one
}
