use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;
use crate::{
    content::ToolContent,
    model::{StopReason, Task, ToolCall, ToolResult, ToolUse, Turn, Usage},
};

fn window(tokens: u64, most_output: u64) -> Window {
    Window {
        tokens: Some(tokens),
        most_output,
        counted: None,
        counts: Vec::new(),
    }
}

fn reply(content: Vec<Content>, input_tokens: u64, cache_read_tokens: u64, output_tokens: u64) -> Reply {
    Reply {
        content,
        thinking: String::new(),
        stop_reason: StopReason::EndTurn,
        usage: Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens,
            ..Usage::default()
        },
    }
}

fn used(input_tokens: u64, cache_read_tokens: u64) -> Reply {
    reply(Vec::new(), input_tokens, cache_read_tokens, 0)
}

#[test]
fn the_estimate_follows_what_the_provider_counts() {
    let mut window = window(200_000, 8_000);
    assert_eq!(window.estimate(3_500), 1_000);
    window.learn(3_500, 0, &used(500, 1_500));
    assert_eq!(window.estimate(3_500), 2_000);
    assert_eq!(window.estimate(3_500 + 350), 2_100);
    assert_eq!(window.estimate(1_750), 1_000);
}

#[test]
fn a_count_that_cannot_be_is_not_taken_over() {
    let mut window = window(200_000, 8_000);
    for (bytes, input, cached) in [(35_000, 1, 0), (35_000, u64::MAX, u64::MAX)] {
        assert_eq!(window.learn(bytes, 0, &used(input, cached)).tokens, None);
    }
    assert_eq!(window.estimate(35_000), 10_000);
}

#[test]
fn an_answer_fits_beside_the_conversation() {
    let window = window(10_000, 8_000);
    assert_eq!(window.room_beside(0), Some(5_000));
    assert_eq!(window.most_output(0), 8_000);
    assert_eq!(window.most_output(14_000), 6_000);
    assert_eq!(window.most_output(1 << 30), 1_024);
    assert_eq!(window.output_share(0, 1), 4_375);
    assert_eq!(window.output_share(0, 1_000), 256);
}

/// A tokenizer over bytes: it cuts the text after these numbers of bytes, over and over.
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
        // The provider's own words around each piece.
        const AROUND: u64 = 40;
        let piece = |piece: &Content| {
            AROUND
                + match piece {
                    Content::Text(text) => self.count(text),
                    Content::ToolCall(call) => self.count(&call.name) + self.count(&call.arguments),
                    // Signed thinking counts as what was thought.
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
    fn no_count_makes_an_estimate_overflow(bytes in any::<u32>(), tokens in any::<u64>(), next in any::<u32>()) {
        let mut window = window(u64::MAX, u64::MAX);
        window.learn(bytes as usize, 0, &used(tokens, tokens));
        let estimate = window.estimate(next as usize);
        prop_assert!(estimate <= u64::from(next) + u64::from(bytes) + 1);
        prop_assert!(window.most_output(next as usize) >= 1);
    }

    #[test]
    fn no_tokenizer_over_bytes_counts_more_than_the_bound(
        prompt in text(),
        steps in proptest::collection::vec(step(), 0..8),
        cuts in proptest::collection::vec(1_usize..6, 1..4),
        changed in proptest::option::of(0_usize..8),
    ) {
        let tokenizer = Tokenizer(cuts);
        let mut window = window(u64::MAX, 1_000);
        let mut transcript: Vec<Turn> = Vec::new();
        let mut thoughts = 0;
        for (number, pair) in turns(&steps).into_iter().enumerate() {
            let fixed = tokenizer.count("Work.") + tokenizer.count(&prompt) + 300;
            let truth = fixed + thoughts + transcript.iter().map(|turn| tokenizer.turn(turn)).sum::<u64>();
            let request = request(&prompt, &transcript);
            let bound = window.most_input(&request);
            prop_assert!(truth <= bound, "{truth} {bound}");
            // The bound is near where the prefix was counted.
            let bytes = request.bytes();
            let [Turn::Assistant(said), results] = pair else { panic!() };
            let thought = steps[number].2;
            window.learn(bytes, transcript.len(), &reply(said.clone(), truth, 0, thought + 10_000));
            if changed == Some(number) {
                // Older outputs are dropped: no count of a longer prefix holds.
                window.changed_from(0);
            }
            thoughts += thought;
            transcript.extend([Turn::Assistant(said), results]);
        }
    }
}

#[test]
fn the_bound_of_a_counted_prefix_is_its_count_with_a_margin() {
    let mut window = window(1_000_000, 8_000);
    let long = "word ".repeat(20_000);
    let bytes = request(&long, &[]).bytes();
    assert!(window.most_input(&request(&long, &[])) > 100_000);
    window.learn(bytes, 0, &used(20_000, 0));
    assert_eq!(window.most_input(&request(&long, &[])), 20_000 + 400 + 64);
    let told = [Turn::User("7".repeat(100))];
    assert_eq!(window.most_input(&request(&long, &told)), 20_464 + 100 + 128);
    window.changed_from(0);
    assert_eq!(
        window.most_input(&request(&long, &told)),
        20_464 + 228,
        "the task is still counted"
    );
}
