//! Tests of the rule checks: each request that a provider refuses ends a test, and money follows real bytes.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use serde_json::value::RawValue;
use sortie_agent::model::{Task, ToolDefinition, ToolResult};
use sortie_testkit::rows;

use crate::{
    prelude::*,
    support::{Cache, Counting, thinks},
};

struct Nobody;

impl Deltas for Nobody {
    fn text(&self, _piece: &str) {}
}

const TOOLS: [ToolDefinition<'static>; 1] = [ToolDefinition {
    name: "get",
    description: "",
    parameters: "{}",
}];

fn request(transcript: &[Turn]) -> Request<'_> {
    Request {
        system: "Be brief.",
        task: Task {
            prompt: "Go.",
            input: None,
            input_file: None,
            output_schema: None,
            environment: "",
            media: &[],
        },
        transcript,
        tools: &TOOLS,
        max_tokens: 100,
        tool_use: ToolUse::Auto,
        effort: None,
        cache_key: "",
    }
}

fn get(id: &str) -> Content {
    call(id, "get", &json!({}))
}

fn result(id: &str, text: &str) -> ToolResult {
    ToolResult {
        id: id.to_owned(),
        name: "get".to_owned(),
        content: ToolContent::Text(text.to_owned()),
        is_error: false,
        note: None,
    }
}

fn results(ids: &[&str]) -> Turn {
    Turn::ToolResults(ids.iter().map(|id| result(id, "got")).collect())
}

/// The message with which the test ends if the agent sends this to a fresh model; empty if it continues.
async fn broken(request: Request<'_>) -> String {
    let model = scripted![says("ok")];
    broken_by(&Ruled::new(&model), request).await
}

async fn broken_by<M: Model>(model: &M, request: Request<'_>) -> String {
    let call = AssertUnwindSafe(model.call(request, &Nobody))
        .catch_unwind()
        .await;
    match call {
        Ok(_) => String::new(),
        Err(panic) => panic.downcast_ref::<String>().cloned().unwrap_or_default(),
    }
}

#[tokio::test]
async fn what_no_provider_takes_ends_the_test() {
    let said = |ids: &[&str]| Turn::Assistant(ids.iter().map(|id| get(id)).collect());
    let text = || Turn::Assistant(vec![Content::Text("Half".to_owned())]);
    let told = |text: &str| Turn::User(text.to_owned());
    let cases = rows! {
        vec![results(&["a"])], "have the results";
        vec![said(&["a"])], "the last calls have no result";
        vec![said(&["a", "b"]), results(&["a"])], "have the results";
        vec![said(&["a", "b"]), results(&["b", "a"])], "have the results";
        vec![said(&["a"]), told("Go on."), results(&["a"])], "have no result";
        vec![said(&["a", "a"]), results(&["a", "a"])], "empty or there twice";
        vec![said(&[""]), results(&[""])], "empty or there twice";
        vec![text(), text(), told("Go on.")], "twice in a row";
        vec![text()], "the model spoke last";
        vec![told(" \n")], "says nothing";
    };
    for (transcript, rule) in cases {
        let broken = broken(request(&transcript)).await;
        assert!(broken.contains(rule), "{broken:?} is not {rule:?}");
    }
    let fine = [said(&["a", "b"]), results(&["a", "b"]), told("Go on.")];
    assert_eq!(broken(request(&fine)).await, "");
    let without_tools = Request {
        tools: &[],
        ..request(&fine)
    };
    assert!(broken(without_tools).await.contains("and no tools"));
    let without_room = Request {
        max_tokens: 0,
        ..request(&fine)
    };
    assert!(broken(without_room).await.contains("max_tokens is zero"));
    let twice = [TOOLS[0], TOOLS[0]];
    let two_names = Request {
        tools: &twice,
        ..request(&fine)
    };
    assert!(broken(two_names).await.contains("is there twice"));
}

fn opaque(text: &str) -> Content {
    Content::Opaque(RawValue::from_string(text.to_owned()).unwrap())
}

#[tokio::test]
async fn a_piece_of_the_providers_own_comes_back_unchanged_and_in_place_or_not_at_all() {
    let sent = [
        (vec![opaque("1"), get("a"), opaque("2")], true),
        (vec![get("a")], true),
        (vec![opaque("1"), get("a")], true),
        (vec![get("a"), opaque("1"), opaque("2")], false),
        (vec![opaque("2"), get("a"), opaque("1")], false),
        (vec![opaque("1.0"), get("a"), opaque("2")], false),
        (vec![opaque("1"), get("a"), get("b"), opaque("2")], false),
    ];
    for (content, holds) in sent {
        let said = vec![opaque("1"), get("a"), opaque("2")];
        let model = scripted![reply(said), says("ok")];
        let ruled = Ruled::new(&model);
        ruled.call(request(&[]), &Nobody).await.unwrap();
        let ids: &[&str] = if content.len() == 4 { &["a", "b"] } else { &["a"] };
        let transcript = [Turn::Assistant(content), results(ids)];
        let broken = broken_by(&ruled, request(&transcript)).await;
        assert_eq!(broken.is_empty(), holds, "{broken:?} for {transcript:?}");
    }
}

/// A conversation of two turns with thinking, and the model that has said it.
async fn thought() -> (Ruled<&'static Scripted>, Vec<Turn>) {
    let turn = |id: &str| reply(vec![thinks(id), get(id)]).into();
    let script = vec![turn("a"), turn("b"), says("one").into(), says("two").into()];
    let mut model = Scripted::new(script);
    model.binds_thinking = true;
    let ruled = Ruled::new(&*Box::leak(Box::new(model)));
    let mut transcript = Vec::new();
    for id in ["a", "b"] {
        let said = ruled.call(request(&transcript), &Nobody).await.unwrap();
        transcript.push(Turn::Assistant(said.content));
        transcript.push(results(&[id]));
    }
    (ruled, transcript)
}

fn without_thinking(turn: &mut Turn) {
    if let Turn::Assistant(pieces) = turn {
        pieces.retain(|piece| !matches!(piece, Content::Opaque(_)));
    }
}

/// A change of a conversation.
type Change = fn(&mut Vec<Turn>);

#[tokio::test]
async fn thinking_is_bound_to_everything_before_it() {
    let (ruled, transcript) = thought().await;
    ruled.call(request(&transcript), &Nobody).await.unwrap();
    let changes: [(Change, bool); 5] = [
        // An output is dropped: the second block comes after it.
        (
            |turns| turns[1] = Turn::ToolResults(vec![result("a", "dropped")]),
            false,
        ),
        // An output after all thinking.
        (
            |turns| turns[3] = Turn::ToolResults(vec![result("b", "dropped")]),
            true,
        ),
        // Only the oldest thinking is dropped.
        (|turns| without_thinking(&mut turns[0]), true),
        // The oldest turns are a summary, and the thinking after them is gone or is not.
        (
            |turns| drop(turns.splice(..2, [Turn::User("Notes.".to_owned())])),
            false,
        ),
        (
            |turns| {
                turns.splice(..2, [Turn::User("Notes.".to_owned())]);
                without_thinking(&mut turns[1]);
            },
            true,
        ),
    ];
    for (change, fits) in changes {
        let (ruled, mut transcript) = thought().await;
        change(&mut transcript);
        let answer = ruled.call(request(&transcript), &Nobody).await;
        assert_eq!(answer.is_ok(), fits, "{transcript:?}");
        if let Err(error) = answer {
            assert_eq!((error.retry, ruled.bound()), (Retry::WithoutThinking, 1));
            assert!(error.message.contains("bound to a different conversation"));
        }
    }
    let (ruled, transcript) = thought().await;
    let other_system = Request {
        system: "Be long.",
        ..request(&transcript)
    };
    assert!(ruled.call(other_system, &Nobody).await.is_err());
}

#[tokio::test]
async fn usage_follows_the_bytes_that_are_new_and_those_that_were_read_before() {
    for (cache, bytes_per_ten_tokens) in [(Cache::None, 35), (Cache::Implicit, 35), (Cache::Marked, 10)] {
        let call = |id: &str| reply(vec![get(id)]).into();
        let model = Scripted::new(vec![call("a"), call("b"), call("c")]);
        let counting = Counting {
            bytes_per_ten_tokens,
            cache,
        };
        let ruled = Ruled::counting(&model, Some(counting));
        let first = ruled.call(request(&[]), &Nobody).await.unwrap().usage;
        let mut transcript = vec![
            Turn::Assistant(vec![get("a")]),
            Turn::ToolResults(vec![result("a", &"x".repeat(3_500))]),
        ];
        let second = ruled.call(request(&transcript), &Nobody).await.unwrap().usage;
        let all = |usage: Usage| usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
        let new = 3_500 * 10 / bytes_per_ten_tokens;
        assert!(
            (new..new + 50).contains(&(all(second) - all(first))),
            "{second:?}"
        );
        let read = if cache == Cache::None { 0 } else { all(first) };
        assert_eq!(second.cache_read_tokens, read, "{cache:?}");
        assert_eq!(second.cache_write_tokens > 0, cache == Cache::Marked);
        assert!(second.output_tokens > 0);

        transcript[1] = Turn::ToolResults(vec![result("a", "dropped")]);
        let third = ruled.call(request(&transcript), &Nobody).await.unwrap().usage;
        assert!(all(third) < all(second) && third.cache_read_tokens < all(first) + 50);
    }
}

#[tokio::test]
async fn usage_of_a_script_stands_and_a_request_beyond_the_window_is_refused() {
    let own = Usage {
        input_tokens: 7,
        ..Usage::default()
    };
    let counted = Reply {
        usage: own,
        ..says("ok")
    };
    let model = scripted![counted];
    let ruled = Ruled::new(&model);
    let long = [Turn::User("word ".repeat(200_000))];
    let refused = ruled.call(request(&long), &Nobody).await.unwrap_err();
    assert_eq!(refused.retry, Retry::Smaller);
    assert_eq!(ruled.call(request(&[]), &Nobody).await.unwrap().usage, own);
}

#[test]
fn every_agent_of_these_tests_is_run_behind_the_rules() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let text = std::fs::read_to_string(&path).unwrap();
            let direct = ["sortie_agent", "::run("].concat();
            assert!(!text.contains(&direct), "{}: use run_agent", path.display());
        }
    }
}
