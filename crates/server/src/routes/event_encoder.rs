//! Encoder of the event stream: messages of a run as server-sent events.

use std::fmt::Write as _;

use bytes::Bytes;
use sortie_api::{OrgId, Refusal, Run, RunId};
use sortie_engine::{Delta, LargeEvent, LargeMessage, Message, RunChange};
use sortie_store::runs::{LargeText, ListedEvent};

use super::{listing::Entry, runs::with_output};
use crate::kit::{LargeTexts, TextForm};

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
            // A delta has no id, so that `Last-Event-ID` keeps its meaning.
            Message::Delta(delta) => {
                let (kind, data) = match delta {
                    Delta::ModelStart(start) => ("message_start", sortie_api::json::to_line(start)),
                    Delta::Text(delta) => ("message_delta", sortie_api::json::to_line(delta)),
                    Delta::Output(delta) => ("tool_output", sortie_api::json::to_line(delta)),
                };
                // Texts and numbers always serialize.
                let data = data.unwrap_or_default();
                write!(out, "event: {kind}\ndata: {data}\n\n")
            }
            Message::Done(run) => write!(out, "event: done\ndata: {run}\n\n"),
            Message::Change(RunChange { position, run }) => {
                let (kind, data) = run.as_ref().map_or(("reset", "{}"), |run| ("run", run.get()));
                write!(out, "id: {position}\nevent: {kind}\ndata: {data}\n\n")
            }
            // Such a message is always the only one in its batch. [`encode_large`] encodes a large message. A piece of another
            // node's stream is passed on unchanged.
            Message::Large(_) | Message::Passed(_) => Ok(()),
        };
    }
    out.into()
}

/// Makes the JSON of an event of a run. Large data is sent from the store, or from the memory of this node.
pub(super) fn event_entry(texts: &LargeTexts, (org, run): (OrgId, RunId), event: ListedEvent) -> Entry {
    let ListedEvent {
        seq,
        kind,
        data,
        created_at,
    } = event;
    let before = format!("{{\"id\":{seq},\"type\":\"{kind}\",\"data\":");
    let rest = format!(",\"created_at\":\"{created_at}\"}}");
    match data {
        Some(data) => Entry::whole(before + &data + &rest),
        None => Entry {
            text: before.into_bytes(),
            large: Some(texts.open(org, LargeText::Event(run, seq), TextForm::Json)),
            rest,
        },
    }
}

/// Encodes a large message of a run of the organization. Its text is sent from the store.
pub(super) fn encode_large(texts: &LargeTexts, org: OrgId, message: &LargeMessage) -> Result<Entry, Refusal> {
    let (before, entry) = match message {
        LargeMessage::Event(large) => {
            let LargeEvent {
                run,
                seq,
                kind,
                created_at,
            } = large.clone();
            let before = format!("id: {seq}\nevent: {kind}\ndata: ");
            let event = ListedEvent {
                seq,
                kind,
                data: None,
                created_at,
            };
            (before, event_entry(texts, (org, run), event))
        }
        LargeMessage::Done(run) => {
            let before = "event: done\ndata: ".to_owned();
            (before, with_output(texts, org, Run::clone(run))?)
        }
    };
    let text = String::from_utf8(entry.text).map_err(Refusal::internal)?;
    Ok(Entry {
        text: (before + &sortie_api::json::in_line(text)).into_bytes(),
        rest: entry.rest + "\n\n",
        ..entry
    })
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use futures_util::{FutureExt as _, StreamExt as _, stream};
    use http_body_util::BodyExt as _;
    use serde_json::value::RawValue;
    use sortie_api::Timestamp;
    use sortie_api::live::{MessageDelta, MessageStart, ToolOutput};
    use sortie_engine::Batch;
    use sortie_store::runs::EventRow;

    use super::{
        super::event_stream::{Ends, EventStream, Messages},
        *,
    };
    use crate::{kit::BodyBudget, metrics::HttpMetrics};

    fn delta(text: &str, step: u32) -> Message {
        Message::Delta(Delta::Text(MessageDelta {
            text: text.to_owned(),
            step,
        }))
    }

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
        assert_eq!(
            encoded(delta("line\nfeed", 2)),
            "event: message_delta\ndata: {\"text\":\"line\\nfeed\",\"step\":2}\n\n"
        );
        let start = MessageStart {
            model: "runbook".to_owned(),
            step: 2,
        };
        assert_eq!(
            encoded(Message::Delta(Delta::ModelStart(start))),
            "event: message_start\ndata: {\"model\":\"runbook\",\"step\":2}\n\n"
        );
        let output = ToolOutput {
            id: "call_1".to_owned(),
            text: "line\n".to_owned(),
        };
        assert_eq!(
            encoded(Message::Delta(Delta::Output(output))),
            "event: tool_output\ndata: {\"id\":\"call_1\",\"text\":\"line\\n\"}\n\n"
        );
    }

    #[test]
    fn a_change_of_the_list_has_its_position_as_id() {
        let change = |run: Option<&str>| {
            let run = run.map(|run| RawValue::from_string(run.to_owned()).unwrap().into());
            encoded(Message::Change(RunChange {
                position: "a-1".to_owned(),
                run,
            }))
        };
        assert_eq!(
            change(Some("{\"id\":1}")),
            "id: a-1\nevent: run\ndata: {\"id\":1}\n\n"
        );
        assert_eq!(change(None), "id: a-1\nevent: reset\ndata: {}\n\n");
    }

    #[test]
    fn the_final_run_is_done() {
        let run = RawValue::from_string(r#"{"id":"run_1"}"#.to_owned()).unwrap();
        assert_eq!(
            encoded(Message::Done(run.into())),
            "event: done\ndata: {\"id\":\"run_1\"}\n\n"
        );
    }

    #[test]
    fn messages_follow_one_another_in_their_order_each_behind_a_blank_line() {
        let (a, b) = (delta("a", 1), delta("b", 1));
        let alone = [&a, &b, &b].map(|message| encoded(message.clone()));
        assert_eq!(encode(&[a, b.clone(), b]), alone.concat());
        assert_eq!(encode(&[]), "");
    }

    fn body(
        batches: impl futures_util::Stream<Item = Result<Arc<Batch>, Refusal>> + Send + 'static,
    ) -> EventStream {
        let open = HttpMetrics::default().stream();
        let texts = LargeTexts::of(BodyBudget::default(), |_, text| async move {
            Err(Refusal::internal(format!("{text:?}")))
        });
        let messages = Messages {
            batches: batches.boxed(),
            texts,
            org: OrgId::new(Timestamp::from_micros(1), [1; 10]),
        };
        EventStream::new(messages, Ends::default(), Duration::from_secs(15), open)
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_has_a_heartbeat_before_its_next_message() {
        let run = RawValue::from_string("{}".to_owned()).unwrap();
        let messages = [delta("a", 1), delta("b", 1), Message::Done(run.into())];
        let batches = stream::iter(messages.clone())
            .enumerate()
            .then(async |(index, message)| {
                if index == 1 {
                    // Longer than the interval of one heartbeat, and shorter than two.
                    tokio::time::sleep(Duration::from_secs(16)).await;
                }
                Ok(Arc::new(Batch::new(vec![message])))
            });
        let sent = body(Box::pin(batches)).collect().await.unwrap().to_bytes();
        let [a, b, done] = messages.map(encoded);
        let expected = format!(": connected\nretry: 2000\n{a}: heartbeat\n{b}{done}");
        assert_eq!(String::from_utf8(sent.to_vec()).unwrap(), expected);
    }

    #[tokio::test]
    async fn a_stream_ends_behind_done_whatever_may_follow() {
        let run = RawValue::from_string("{}".to_owned()).unwrap();
        let done = Arc::new(Batch::new(vec![Message::Done(run.into())]));
        let sent = body(stream::iter([Ok(done)]).chain(stream::pending()));
        // Another poll would wait forever.
        let sent = sent.collect().now_or_never().unwrap().unwrap().to_bytes();
        assert!(sent.ends_with(b"event: done\ndata: {}\n\n"));
    }

    #[tokio::test]
    async fn nothing_follows_a_failure() {
        let late = Arc::new(Batch::new(vec![delta("late", 1)]));
        let mut body = body(stream::iter([Err(Refusal::internal("disk")), Ok(late)]));
        assert!(body.frame().await.unwrap().is_err());
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn all_followers_are_sent_the_bytes_of_one_encoding() {
        let event = |seq| {
            let data = format!("{{\"text\":\"{}\"}}", "x".repeat(1_000));
            Arc::new(Batch::new(vec![Message::Event(EventRow {
                seq,
                kind: "message".to_owned(),
                data,
                created_at: Timestamp::from_micros(1_700_000_000_000_000),
            })]))
        };
        let shared = event(1);
        let mut sent = Vec::new();
        for _ in 0..3 {
            let batch = Arc::clone(&shared);
            // The opening is sent first, so that the batch is a separate chunk.
            let batches = stream::once(tokio::task::yield_now())
                .filter_map(async |()| None)
                .chain(stream::iter([Ok(batch)]));
            let mut body = body(batches);
            let opening = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(opening.starts_with(b": connected\n"));
            sent.push(body.frame().await.unwrap().unwrap().into_data().unwrap());
        }
        assert!(sent[0].starts_with(b"id: 1\n"));
        for chunk in &sent {
            assert_eq!(chunk.as_ptr(), sent[0].as_ptr());
        }
    }
}
