//! The form of the event stream: messages of a run as server-sent events.

use std::fmt::Write as _;

use bytes::Bytes;
use sortie_engine::Message;

/// Room for the fields around an event's data, in bytes.
const AROUND: usize = 160;

/// Encodes messages. Each is followed by a blank line.
pub(super) fn encode(messages: &[Message]) -> Bytes {
    let size = messages
        .iter()
        .map(|message| message.content_bytes() + AROUND)
        .sum();
    let mut out = String::with_capacity(size);
    for message in messages {
        // Writing to a `String` cannot fail.
        let _infallible = match message {
            Message::Event(event) => write!(
                out,
                "id: {seq}\nevent: {kind}\ndata: {{\"id\":{seq},\"type\":\"{kind}\",\"data\":{data},\"created_at\":\"{at}\"}}\n\n",
                seq = event.seq,
                kind = event.kind,
                data = event.data,
                at = event.created_at,
            ),
            // It has no id, so that `Last-Event-ID` keeps its meaning.
            Message::Delta(delta) => {
                // A text and a number always serialize.
                let data = sortie_api::json::to_line(delta).unwrap_or_default();
                write!(out, "event: message_delta\ndata: {data}\n\n")
            }
            Message::Done(run) => write!(out, "event: done\ndata: {run}\n\n"),
        };
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use sortie_api::Timestamp;
    use sortie_engine::TextDelta;
    use sortie_store::EventRow;

    use super::*;

    fn encoded(message: Message) -> String {
        String::from_utf8(encode(&[message]).to_vec()).unwrap()
    }

    #[test]
    fn an_event_has_its_position_as_id_and_its_record_as_data() {
        let event = EventRow {
            seq: 7,
            kind: "status".to_owned(),
            data: r#"{"status":"queued"}"#.to_owned(),
            created_at: Timestamp::from_micros(1_700_000_000_000_000),
        };
        assert_eq!(
            encoded(Message::Event(event)),
            "id: 7\nevent: status\ndata: {\"id\":7,\"type\":\"status\",\"data\":{\"status\":\"queued\"},\
             \"created_at\":\"2023-11-14T22:13:20.000Z\"}\n\n"
        );
    }

    #[test]
    fn a_piece_of_text_has_no_id_and_stays_on_one_line() {
        let delta = TextDelta {
            text: "line\nfeed".to_owned(),
            step: 2,
        };
        assert_eq!(
            encoded(Message::Delta(delta)),
            "event: message_delta\ndata: {\"text\":\"line\\nfeed\",\"step\":2}\n\n"
        );
    }

    #[test]
    fn the_final_run_is_done() {
        let run = RawValue::from_string(r#"{"id":"run_1"}"#.to_owned()).unwrap();
        assert_eq!(
            encoded(Message::Done(run.into())),
            "event: done\ndata: {\"id\":\"run_1\"}\n\n"
        );
    }
}
