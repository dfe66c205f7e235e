//! Event streams: the chunks do not affect the result, and a literal implementation of the specification finds the same events in
//! the whole text.

use stream::{Message, Parser, TooLarge};

use crate::{Bounds, Input, Line};

#[path = "../../../crates/net/src/sse.rs"]
pub(super) mod stream;

const BOUNDS: Bounds = Bounds {
    memory: Line {
        base: 16 << 10,
        per_byte: 40,
    },
    time: Line {
        base: 2_000_000,
        per_byte: 1_000,
    },
};
/// Maximum size of a stream, in bytes.
const MOST: usize = 64 << 10;
/// Maximum size for the literal implementation.
const BY_THE_LETTER: usize = 4 << 10;
/// Limits for one event, in bytes.
const LIMITS: [usize; 4] = [1 << 20, 4096, 100, 12];

/// Checks one input.
pub fn check(data: &[u8]) {
    let input = Input::repeated(data, MOST);
    let limit = input.way(LIMITS).unwrap_or_default();
    let whole = BOUNDS.hold(input.bytes.len(), || read(limit, [&*input.bytes].into_iter()));
    let pieces = BOUNDS.hold(input.bytes.len(), || read(limit, input.chunks()));
    assert_eq!(whole, pieces, "chunks make a difference");
    let (messages, end, _) = whole;
    let largest = messages
        .iter()
        .map(|message| message.event.len() + message.data.len())
        .max();
    // `message` is the default if there is no name.
    assert!(
        largest.is_none_or(|bytes| bytes <= limit.max(7) + 7),
        "an event is larger than the limit"
    );
    if input.bytes.len() > BY_THE_LETTER {
        return;
    }
    let by_the_letter = by_the_letter(&input.bytes);
    match end {
        Ok(()) => assert_eq!(messages, by_the_letter),
        Err(TooLarge { .. }) => assert!(by_the_letter.starts_with(&messages), "{messages:?}"),
    }
}

type Read = (Vec<Message>, Result<(), TooLarge>, Option<u64>);

fn read<'a>(limit: usize, mut chunks: impl Iterator<Item = &'a [u8]>) -> Read {
    let (mut parser, mut messages) = (Parser::new(limit), Vec::new());
    let end = chunks.try_for_each(|chunk| parser.push(chunk, &mut messages));
    (messages, end, parser.retry_millis())
}

/// Parses a complete stream without a limit.
fn by_the_letter(stream: &[u8]) -> Vec<Message> {
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    let mut lines = vec![Vec::new()];
    let mut before = 0;
    for &byte in stream {
        match byte {
            b'\n' if before == b'\r' => {}
            b'\n' | b'\r' => lines.push(Vec::new()),
            _ => lines
                .iter_mut()
                .next_back()
                .into_iter()
                .for_each(|line| line.push(byte)),
        }
        before = byte;
    }
    // The last line has no line end.
    lines.pop();
    let (mut messages, mut event, mut data, mut id) = (Vec::new(), String::new(), None, String::new());
    for line in lines {
        let line = String::from_utf8_lossy(&line).into_owned();
        let (field, value) = match line.find(':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (&*line, ""),
        };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            _ if line.is_empty() => {
                let name = std::mem::take(&mut event);
                messages.extend(data.take().map(|data: Vec<String>| Message {
                    event: if name.is_empty() {
                        "message".to_owned()
                    } else {
                        name
                    },
                    data: data.join("\n"),
                    last_id: id.as_str().into(),
                }));
            }
            "event" => value.clone_into(&mut event),
            "data" => data.get_or_insert_default().push(value.to_owned()),
            "id" if !value.contains('\0') => value.clone_into(&mut id),
            _ => {}
        }
    }
    messages
}
