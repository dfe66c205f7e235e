//! A parser of server-sent events, as the HTML standard describes it: any mix of CR, LF and CRLF, a byte order mark,
//! comments, fields without a colon. It accepts bytes in any slices, and the slicing never changes the messages. An
//! incomplete message at the end of the stream is dropped.

/// Message that was dispatched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The `id` of this message; `None` if it has none.
    pub id: Option<String>,
    /// The `event` field; `message` by default.
    pub event: String,
    /// The `data` lines, joined by a line feed.
    pub data: String,
}

/// Item of a stream, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A message.
    Message(Message),
    /// A comment line, without its colon.
    Comment(String),
    /// A valid `retry` field, in milliseconds.
    Retry(u64),
}

/// Incremental parser: feed it with [`push`](Self::push).
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    after_cr: bool,
    begun: bool,
    id: Option<String>,
    event: String,
    data: Option<String>,
}

impl Parser {
    /// Takes the next bytes of the stream and returns the items that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Item> {
        let mut items = Vec::new();
        for &byte in bytes {
            let after_cr = std::mem::take(&mut self.after_cr);
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => {
                    self.after_cr = byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    items.extend(self.end_line(&line));
                }
                _ => self.line.push(byte),
            }
        }
        items
    }

    fn end_line(&mut self, line: &[u8]) -> Option<Item> {
        let text = String::from_utf8_lossy(line);
        let mut text = text.as_ref();
        if !std::mem::replace(&mut self.begun, true) {
            text = text.strip_prefix('\u{feff}').unwrap_or(text);
        }
        if text.is_empty() {
            return self.dispatch();
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" => return Some(Item::Comment(value.to_owned())),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                none => *none = Some(value.to_owned()),
            },
            "event" => value.clone_into(&mut self.event),
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "retry" if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) => {
                return value.parse().ok().map(Item::Retry);
            }
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<Item> {
        let (id, event) = (self.id.take(), std::mem::take(&mut self.event));
        let data = self.data.take()?;
        let event = if event.is_empty() {
            "message".to_owned()
        } else {
            event
        };
        Some(Item::Message(Message { id, event, data }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Vec<Item> {
        Parser::default().push(text.as_bytes())
    }

    fn message(id: Option<&str>, event: &str, data: &str) -> Item {
        Item::Message(Message {
            id: id.map(str::to_owned),
            event: event.to_owned(),
            data: data.to_owned(),
        })
    }

    #[test]
    fn every_kind_of_line_end_ends_a_line() {
        let expected = vec![message(Some("1"), "status", "a\nb")];
        assert_eq!(parse("id: 1\nevent: status\ndata: a\ndata: b\n\n"), expected);
        assert_eq!(parse("id: 1\revent: status\rdata: a\rdata: b\r\r"), expected);
        assert_eq!(parse("id: 1\r\nevent:status\rdata: a\ndata:b\n\r\n"), expected);
    }

    #[test]
    fn comments_retry_and_unknown_fields_are_told_apart() {
        assert_eq!(
            parse("\u{feff}: connected\nretry: 2000\nretry: soon\nfoo: bar\n: hb\n\n"),
            vec![
                Item::Comment("connected".to_owned()),
                Item::Retry(2000),
                Item::Comment("hb".to_owned())
            ]
        );
    }

    #[test]
    fn a_message_without_data_is_dropped_and_so_is_one_that_is_cut_off() {
        assert_eq!(
            parse("event: x\n\ndata: kept\n\ndata: cut"),
            vec![message(None, "message", "kept")]
        );
        assert_eq!(parse("data: cut\n"), vec![]);
    }

    #[test]
    fn an_id_with_nul_is_ignored() {
        assert_eq!(parse("id: 1\0\ndata: x\n\n"), vec![message(None, "message", "x")]);
    }

    proptest! {
        #[test]
        fn the_slicing_does_not_matter(text in "[a-z:\\r\\n \u{e9}]{0,60}", cut in 0_usize..60) {
            let bytes = text.as_bytes();
            let (left, right) = bytes.split_at(cut.min(bytes.len()));
            let mut parser = Parser::default();
            let mut sliced = parser.push(left);
            sliced.extend(parser.push(right));
            prop_assert_eq!(sliced, parse(&text));
        }
    }
}
