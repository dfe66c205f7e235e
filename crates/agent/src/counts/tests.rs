use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;
use crate::{
    content::ToolContent,
    model::{StopReason, Task, ToolCall, ToolResult, ToolUse, Usage},
};

fn reply(content: Vec<Content>, output_tokens: u64) -> Reply {
    Reply {
        content,
        thinking: String::new(),
        stop_reason: StopReason::EndTurn,
        usage: Usage {
            output_tokens,
            ..Usage::default()
        },
    }
}

/// A tokenizer over bytes: it repeatedly cuts the text after these numbers of bytes.
#[derive(Clone, Debug)]
struct Tokenizer(Vec<usize>);

impl Tokenizer {
    fn count(&self, text: &str) -> u64 {
        let mut left = text.len();
        let mut tokens = 0;
        for piece in self.0.iter().cycle() {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(*piece);
            tokens += 1;
        }
        tokens
    }

    fn turn(&self, turn: &Turn) -> u64 {
        // Tokens that the provider adds around each piece.
        const AROUND: u64 = 40;
        let piece = |piece: &Content| {
            AROUND
                + match piece {
                    Content::Text(text) => self.count(text),
                    Content::ToolCall(call) => self.count(&call.name) + self.count(&call.arguments),
                    // Signed thinking counts as the original thinking.
                    Content::Opaque(_) => 0,
                }
        };
        AROUND
            + match turn {
                Turn::Assistant(pieces) => pieces.iter().map(piece).sum(),
                Turn::ToolResults(results) => results
                    .iter()
                    .map(|result| AROUND + self.count(&result.text()))
                    .sum(),
                Turn::User(text) => self.count(text),
            }
    }
}

/// A turn of the model with its results: text, arguments, thinking tokens, outputs.
type Step = (String, String, u64, Vec<String>);

fn turns(steps: &[Step]) -> Vec<[Turn; 2]> {
    let one = |(said, arguments, thought, outputs): &Step| {
        let mut pieces = vec![Content::Text(said.clone())];
        if *thought > 0 {
            pieces.push(Content::Opaque(
                RawValue::from_string("{\"signature\":\"x\"}".to_owned()).unwrap(),
            ));
        }
        let ids = 0..outputs.len();
        pieces.extend(ids.map(|id| {
            Content::ToolCall(ToolCall {
                id: id.to_string(),
                name: "shell".to_owned(),
                arguments: arguments.clone(),
            })
        }));
        let results = outputs.iter().enumerate().map(|(id, output)| ToolResult {
            id: id.to_string(),
            name: "shell".to_owned(),
            content: ToolContent::Text(output.clone()),
            is_error: false,
            note: Some("80 % of the time is over.".to_owned()),
        });
        [Turn::Assistant(pieces), Turn::ToolResults(results.collect())]
    };
    steps.iter().map(one).collect()
}

fn request<'a>(prompt: &'a str, transcript: &'a [Turn]) -> Request<'a> {
    Request {
        system: "Work.",
        task: Task {
            prompt,
            input: None,
            input_file: None,
            output_schema: None,
            environment: "",
            media: &[],
        },
        transcript,
        tools: &[],
        max_tokens: 1,
        tool_use: ToolUse::Auto,
        effort: None,
        cache_key: "",
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{0,400}",
        "[a-z ]{0,400}",
        "[A-Za-z0-9+/]{0,400}",
        "(\u{1f600}|é|漢){0,100}"
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let outputs = proptest::collection::vec(text(), 0..4);
    (text(), text(), prop_oneof![Just(0_u64), 1_u64..5_000], outputs)
}

proptest! {
    #[test]
    fn no_tokenizer_over_bytes_counts_more_than_the_bound(
        prompt in "[0-9A-Z]{0,400}",
        steps in proptest::collection::vec(step(), 0..8),
        cuts in proptest::collection::vec(1_usize..6, 1..4),
        dropped in proptest::option::of(0_usize..8),
    ) {
        let tokenizer = Tokenizer(cuts);
        let mut counts = Counts::default();
        let mut transcript: Vec<Turn> = Vec::new();
        let mut thoughts = 0;
        for (number, pair) in turns(&steps).into_iter().enumerate() {
            let fixed = tokenizer.count("Work.") + tokenizer.count(&prompt) + 300;
            let truth = fixed + thoughts + transcript.iter().map(|turn| tokenizer.turn(turn)).sum::<u64>();
            let request = request(&prompt, &transcript);
            let bound = counts.most_input(&request);
            prop_assert!(truth <= bound, "{truth} {bound}");
            let [Turn::Assistant(said), results] = pair else { panic!() };
            let thought = steps[number].2;
            let written = thought + tokenizer.turn(&Turn::Assistant(said.clone()));
            let count = Count::of(request.bytes() as u64, transcript.len(), truth, &reply(said.clone(), written));
            counts.push(count);
            thoughts += thought;
            transcript.extend([Turn::Assistant(said), results]);
            if dropped == Some(number) {
                // A few words replace each old output.
                counts.outputs_dropped(transcript.len() * 4);
                for turn in &mut transcript {
                    if let Turn::ToolResults(results) = turn {
                        for result in results {
                            result.content = ToolContent::Dropped { bytes: result.content.held_bytes() };
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_bound_of_a_counted_prefix_is_its_count_with_a_margin() {
    let mut counts = Counts::default();
    let long = "word ".repeat(20_000);
    let bytes = request(&long, &[]).bytes() as u64;
    let first = counts.most_input(&request(&long, &[]));
    assert!((50_000..52_000).contains(&first), "{first}");
    counts.push(Count::of(bytes, 0, 20_000, &reply(Vec::new(), 0)));
    assert_eq!(counts.most_input(&request(&long, &[])), 20_000 + 400 + 64);
    let told = [Turn::User("7".repeat(100))];
    assert_eq!(counts.most_input(&request(&long, &told)), 20_464 + 100 + 128);
    counts.push(Count::of(bytes + 100, 1, 20_100, &reply(Vec::new(), 0)));
    counts.turns_replaced();
    assert_eq!(counts.longest(), Some((0, 20_000)), "the task is still counted");
}

#[test]
fn a_reply_counts_again_what_the_provider_counted_for_it() {
    let said = vec![Content::Text("word ".repeat(1_000))];
    let mut counts = Counts::default();
    counts.push(Count::of(10_000, 0, 3_000, &reply(said.clone(), 1_200)));
    let transcript = [Turn::Assistant(said)];
    let bound = counts.most_input(&request("Go.", &transcript));
    assert_eq!(bound, 3_000 + 60 + 64 + 1_200 + 24 + 64 + 128);
    counts.model_replaced();
    let other = counts.most_input(&request("Go.", &transcript));
    assert!(other > 2 * (3_000 + 1_200));
}

#[test]
fn a_count_that_cannot_be_is_not_taken_over() {
    for tokens in [1, u64::MAX] {
        assert_eq!(Count::of(35_000, 0, tokens, &reply(Vec::new(), 0)).tokens, None);
    }
    assert_eq!(
        Count::of(35_000, 0, 9_000, &reply(Vec::new(), 0)).tokens,
        Some(9_000)
    );
}
