use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Value, json, value::RawValue};
use sortie_api::Timestamp;
use sortie_engine::Delta;
use sortie_store::runs::EventRow;

use super::*;
use crate::kit::BodyBudget;

/// A recorded event: its type and data.
type Recorded = (&'static str, Value);

fn run_id() -> RunId {
    RunId::new(Timestamp::from_micros(1), [1; 10])
}

fn org_id() -> OrgId {
    OrgId::new(Timestamp::from_micros(1), [2; 10])
}

fn event(seq: i64, (kind, data): &Recorded) -> Message {
    Message::Event(EventRow {
        seq,
        kind: (*kind).to_owned(),
        data: data.to_string(),
        created_at: Timestamp::from_micros(1),
    })
}

fn done(status: &str) -> Message {
    let run = json!({
        "id": run_id(), "status": status, "output": "x", "created_at": "2026-11-20T21:30:00.000Z",
        "max_cost_micros": 5, "billing_pending": false, "zero_data_retention": false, "timeout_seconds": 60,
        "last_event_id": 9,
    });
    Message::Done(RawValue::from_string(run.to_string()).unwrap().into())
}

/// Chunk of a stream: its ID, and its JSON or `[DONE]`.
type Sent = (Option<String>, String);

/// Encodes batches. Large events are read from `recorded`. Returns the text and the end of the last piece.
async fn encoded(
    batches: Vec<Vec<Message>>,
    after: Position,
    recorded: Vec<Recorded>,
) -> Result<(String, Option<PassedEnd>), Refusal> {
    let texts = LargeTexts::of(BodyBudget::default(), move |_, text| {
        let LargeText::Event(_, seq) = text else {
            panic!("{text:?}");
        };
        let data = usize::try_from(seq - 1).ok().and_then(|at| recorded.get(at));
        let data = data.map(|(_, data)| data.to_string());
        async move { data.ok_or(Refusal::not_found()) }
    });
    let batches = batches.into_iter().map(|batch| Ok(Arc::new(Batch::new(batch))));
    let stream = UiMessageStream::new(stream::iter(batches).boxed(), (org_id(), run_id()), after, texts);
    let pieces: Vec<Arc<Batch>> = stream.pieces().try_collect().await?;
    let mut bytes = Vec::new();
    for piece in &pieces {
        bytes.extend_from_slice(&piece.passed().expect("each batch is encoded").bytes);
    }
    let end = pieces
        .last()
        .and_then(|piece| piece.passed())
        .map(|piece| piece.end);
    Ok((String::from_utf8(bytes).unwrap(), end))
}

fn parsed(text: &str) -> Vec<Sent> {
    let messages = text.split_terminator("\n\n");
    let parse = |message: &str| match message.split_once("\ndata: ") {
        Some((id, data)) => (Some(id.strip_prefix("id: ").unwrap().to_owned()), data.to_owned()),
        None => (None, message.strip_prefix("data: ").unwrap().to_owned()),
    };
    messages.map(parse).collect()
}

/// The chunks after a position. As the engine does, this begins with the last model call before its event.
fn read(recorded: &[Recorded], after: Position, large: &HashSet<usize>, status: &str) -> Vec<Sent> {
    let before = usize::try_from(after.event - 1).unwrap_or(0).min(recorded.len());
    let start = recorded[..before]
        .iter()
        .rposition(|(kind, _)| *kind == "model_call")
        .unwrap_or(0);
    let mut batches = Vec::new();
    for (at, recorded) in recorded.iter().enumerate().skip(start) {
        let seq = i64::try_from(at).unwrap() + 1;
        batches.push(vec![if large.contains(&at) {
            Message::Large(LargeMessage::Event(LargeEvent {
                run: run_id(),
                seq,
                kind: recorded.0.to_owned(),
                created_at: Timestamp::from_micros(1),
            }))
        } else {
            event(seq, recorded)
        }]);
    }
    batches.push(vec![done(status)]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (text, end) = runtime
        .block_on(encoded(batches, after, recorded.to_vec()))
        .unwrap();
    assert_eq!(end, Some(PassedEnd::Done));
    parsed(&text)
}

fn any_event() -> impl Strategy<Value = Recorded> {
    let id = prop::sample::select(vec!["a", "b", "c"]);
    let step = 1_u32..9;
    prop_oneof![
        Just(("status", json!({"status": "running"}))),
        step.clone()
            .prop_map(|step| ("model_call", json!({"model": "m", "step": step}))),
        (any::<String>(), step.clone())
            .prop_map(|(text, step)| ("message", json!({"text": text, "step": step}))),
        (any::<String>(), step)
            .prop_map(|(text, step)| ("thinking_summary", json!({"text": text, "step": step}))),
        (id.clone(), any::<String>()).prop_map(|(id, text)| (
            "tool_start",
            json!({"tool": "t", "id": id, "arguments": {"a": text}})
        )),
        (id, any::<bool>(), any::<String>()).prop_map(|(id, is_error, output)| (
            "tool_end",
            json!({"id": id, "is_error": is_error, "output": output})
        )),
        any::<String>().prop_map(|path| ("artifact", json!({"path": path}))),
        Just(("resumed", json!({"step": 1, "attempt": 2}))),
        Just(("of_tomorrow", json!({"a": [1]}))),
    ]
}

/// A run: its events, of which one is the final status, and the positions of those that are large.
fn any_run() -> impl Strategy<Value = (Vec<Recorded>, HashSet<usize>, &'static str)> {
    let events = prop::collection::vec(any_event(), 1..30);
    let late = prop::collection::vec(any_event(), 0..4);
    let status = prop::sample::select(vec!["succeeded", "failed", "cancelled"]);
    let large = prop::collection::hash_set(0_usize..30, 0..4);
    (events, late, status, large).prop_map(|(mut events, late, status, large)| {
        events.push(("status", json!({"status": status})));
        // Only these follow the end of a run.
        let follows = |(kind, _): &Recorded| matches!(*kind, "model_call" | "tool_end");
        events.extend(late.into_iter().filter(follows));
        (events, large, status)
    })
}

/// Checks a whole stream as the reader of the AI SDK does, which fails for a part that is used and not open.
fn check(sent: &[Sent]) {
    let (mut open, mut calls, mut running) = (HashSet::new(), HashSet::new(), HashSet::new());
    let mut has_open_step = false;
    let (mut starts, mut finishes) = (0, 0);
    let (last, chunks) = sent.split_last().unwrap();
    assert_eq!(*last, (None, "[DONE]".to_owned()));
    for (at, (_, json)) in chunks.iter().enumerate() {
        let chunk: Value = serde_json::from_str(json).unwrap();
        let text = |field: &str| chunk[field].as_str().unwrap_or_default().to_owned();
        let kind = text("type");
        match kind.as_str() {
            "start" => {
                assert_eq!((at, text("messageId")), (0, run_id().to_string()));
                starts += 1;
            }
            "start-step" => assert!(!std::mem::replace(&mut has_open_step, true)),
            "finish-step" => assert!(std::mem::take(&mut has_open_step) && running.is_empty()),
            "text-start" | "reasoning-start" => assert!(has_open_step && open.insert(text("id"))),
            "text-delta" | "reasoning-delta" => assert!(open.contains(&text("id"))),
            "text-end" | "reasoning-end" => assert!(open.remove(&text("id"))),
            "tool-input-available" => {
                assert!(has_open_step);
                calls.insert(text("toolCallId"));
                running.insert(text("toolCallId"));
            }
            "tool-output-available" | "tool-output-error" => {
                assert!(calls.contains(&text("toolCallId")) && running.remove(&text("toolCallId")));
            }
            "finish" => finishes += 1,
            other => assert!(
                other.starts_with("data-") || ["abort", "error"].contains(&other),
                "{other}"
            ),
        }
    }
    assert!(open.is_empty() && running.is_empty() && !has_open_step);
    assert_eq!((starts, finishes), (1, 1));
}

proptest! {
    /// `docs/API.md#ui-message-streams`: a stream that continues after a chunk sends the chunks that the whole stream has after it.
    #[test]
    fn the_chunks_before_and_after_any_cut_are_those_of_the_whole((recorded, large, status) in any_run()) {
        let whole = read(&recorded, Position::default(), &HashSet::new(), status);
        check(&whole);
        let mut ids = HashSet::new();
        for (cut, (id, _)) in whole.iter().enumerate() {
            let Some(id) = id else { continue };
            prop_assert!(ids.insert(id.clone()), "{} is there twice", id);
            let after: Position = id.parse().unwrap();
            prop_assert_eq!(&after.to_string(), id);
            prop_assert_eq!(&read(&recorded, after, &large, status), &whole[cut + 1..]);
        }
    }
}

#[tokio::test]
async fn a_large_event_is_sent_in_pieces_and_continues_within_its_chunks() {
    let large = "\"x\n\u{2028}".repeat(60_000);
    let recorded = vec![
        ("status", json!({"status": "running"})),
        ("message", json!({"text": large, "step": 1})),
        (
            "tool_start",
            json!({"tool": "t", "id": "a", "arguments": {"text": large}}),
        ),
        ("tool_end", json!({"id": "a", "is_error": false, "output": "b"})),
        ("status", json!({"status": "succeeded"})),
    ];
    let texts = |after: Position, large: &[usize]| {
        let (recorded, large) = (
            recorded.clone(),
            large.iter().copied().collect::<HashSet<usize>>(),
        );
        std::thread::spawn(move || read(&recorded, after, &large, "succeeded"))
            .join()
            .unwrap()
    };
    let whole = texts(Position::default(), &[]);
    check(&whole);
    assert_eq!(texts(Position::default(), &[1, 2]), whole);
    assert!(whole.iter().all(|(_, json)| !json.contains(['\n', '\u{2028}'])));
    for cut in ["2.1", "2.2", "2.3", "2.4", "3.1"] {
        let at = whole
            .iter()
            .position(|(id, _)| id.as_deref() == Some(cut))
            .unwrap();
        assert_eq!(texts(cut.parse().unwrap(), &[1, 2]), whole[at + 1..], "{cut}");
    }
}

#[tokio::test]
async fn pieces_of_a_large_event_are_small_and_end_between_two_messages() {
    let recorded = [("message", json!({"text": "x".repeat(300_000), "step": 1}))];
    let batch = vec![Message::Large(LargeMessage::Event(LargeEvent {
        run: run_id(),
        seq: 1,
        kind: "message".to_owned(),
        created_at: Timestamp::from_micros(1),
    }))];
    let data = recorded[0].1.to_string();
    let texts = LargeTexts::of(BodyBudget::default(), move |_, _| {
        let data = data.clone();
        async move { Ok(data) }
    });
    let batches = stream::iter([Ok(Arc::new(Batch::new(batch)))]).boxed();
    let stream = UiMessageStream::new(batches, (org_id(), run_id()), Position::default(), texts);
    let pieces: Vec<Arc<Batch>> = stream.pieces().try_collect().await.unwrap();
    assert!(pieces.len() > 4);
    let (last, within) = pieces.split_last().unwrap();
    for piece in within {
        let piece = piece.passed().unwrap();
        assert!(piece.bytes.len() <= PIECE_BYTES);
        assert_eq!(piece.end, PassedEnd::Within);
    }
    assert_eq!(last.passed().unwrap().end, PassedEnd::Between);
}

#[tokio::test]
async fn live_messages_have_no_id_and_do_not_count() {
    let delta = Message::Delta(Delta::Text(sortie_api::live::MessageDelta {
        text: "a\nb".to_owned(),
        step: 1,
    }));
    let recorded = [
        ("status", json!({"status": "running"})),
        ("message", json!({"text": "ab", "step": 1})),
    ];
    let batches = vec![
        vec![event(1, &recorded[0])],
        vec![delta],
        vec![event(2, &recorded[1])],
    ];
    let (text, end) = encoded(batches, Position { event: 1, chunk: 1 }, Vec::new())
        .await
        .unwrap();
    assert_eq!(end, Some(PassedEnd::Between));
    let ids: Vec<Option<String>> = parsed(&text).into_iter().map(|(id, _)| id).collect();
    let expected = [
        Some("1.2"),
        None,
        Some("2.1"),
        Some("2.2"),
        Some("2.3"),
        Some("2.4"),
    ];
    assert_eq!(ids, expected.map(|id| id.map(str::to_owned)));
    assert!(text.contains("\n\ndata: {\"type\":\"data-message-delta\",\"data\":{\"text\":\"a\\nb\",\"step\":1},\"transient\":true}\n\n"));
}

#[tokio::test]
async fn what_cannot_be_read_breaks_the_stream_off() {
    let large = Message::Large(LargeMessage::Event(LargeEvent {
        run: run_id(),
        seq: 7,
        kind: "message".to_owned(),
        created_at: Timestamp::from_micros(1),
    }));
    let unreadable = event(1, &("message", json!({"step": 1})));
    for batch in [vec![large], vec![unreadable]] {
        assert!(
            encoded(vec![batch], Position::default(), Vec::new())
                .await
                .is_err()
        );
    }
}

#[test]
fn a_position_is_an_event_and_a_chunk() {
    for text in ["0.0", "3.1", "9223372036854775807.4294967295"] {
        assert_eq!(text.parse::<Position>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "3",
        "3.",
        ".1",
        "-1.1",
        "3.-1",
        "+3.1",
        "3.1.1",
        "x.1",
        "3.4294967296",
        " 3.1",
    ] {
        assert!(text.parse::<Position>().is_err(), "{text}");
    }
}
