//! Answers with thinking between tags, whole and as they are written.

use proptest::prelude::*;
use sortie_testkit::{list, rows};

use super::*;

fn tags() -> Tags {
    Tags::of("Count the lines.")
}

/// Returns the shown part of an answer that arrives in pieces of so many characters.
fn shown(tags: &Tags, text: &str, size: usize) -> String {
    let mut answer = AnswerText::new(tags.clone());
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::new();
    for piece in chars.chunks(size.max(1)) {
        out.push_str(&answer.push(&piece.iter().collect::<String>()));
    }
    out + &answer.finish()
}

/// Answers, their thinking, and the rest.
const BLOCKS: [(&str, &str, &str); 21] = rows! {
    "<think>\nI add.\n</think>\n\n42", "I add.", "42";
    "\n <think>I add.</think>42", "I add.", "42";
    "<thinking>a</thinking>b", "a", "b";
    "<reasoning>\na\n</reasoning>\nb", "a", "b";
    "<seed:think>a</seed:think>b", "a", "b";
    "[THINK]a[/THINK]b", "a", "b";
    "◁think▷a◁/think▷b", "a", "b";
    "<think></think>\n\n42", "", "42";
    "<think>a</think>\n<think>b</think>\nc", "a</think>\n<think>b", "c";
    "<think>\nit never ends", "it never ends", "";
    "<think>", "", "";
    "<think>a</think>", "a", "";
    "<think>a</think>{\"total\": 1}", "a", "{\"total\": 1}";
    "<Think>\nI add.\n</THINK>\n\n42", "I add.", "42";
    "[think]é[/Think]b", "é", "b";
    "<|START_THINKING|>I add.<|END_THINKING|>42", "I add.", "42";
    "<|channel|>analysis<|message|>I add.<|end|><|start|>assistant<|channel|>final<|message|>42", "I add.", "42";
    "<|channel|>analysis<|message|>I add.<|end|>\n<|channel|>final<|message|>42", "I add.", "42";
    "<|start|>assistant<|channel|>final<|message|> 42", "", "42";
    "<think>a</think><|channel|>analysis<|message|>b\n</think>\nc", "a",
        "<|channel|>analysis<|message|>b\n</think>\nc";
    "<|start|>assistant<think> is a tag.", "", "<think> is a tag.";
};

/// Answers that have only the closing tag.
const UNOPENED: [(&str, &str, &str); 8] = rows! {
    "I add.\n</think>\n\n42", "I add.", "42";
    "I add.</think>42", "I add.", "42";
    "I add.</think>\n42", "I add.", "42";
    "I add. </think>\n\n42", "I add.", "42";
    "</think>\n\n42", "", "42";
    "I add.\n</Think>\n\n42", "I add.", "42";
    "I add.<|END_THINKING|>42<|end|>", "I add.", "42<|end|>";
    "I see `</think>`.\n```\n</think>\n```\n</think>\n{}", "I see `</think>`.\n```\n</think>\n```", "{}";
};

/// Answers in which a tag is a word.
const WORDS: [&str; 17] = list! {
    "", "42", "The tag <think> begins it.", "Use <think>a</think> so.", "<think> is a tag of templates.",
    "`<think>` and `</think>` are tags.", "```\n<think>\na\n</think>\n```",
    "A template writes </think> before the answer.", "It is called \"</think>\", and (</think>) ends it.",
    "a</think>b</think>c", "<thinker>a</thinker>", "The tag <Think> begins it, </Think> ends it.", "42<|end|>",
    "<|channel|> is a token of gpt-oss.", "<|channel|>analysis<|message|> begins it.",
    "Behind <|end|> comes <|start|>assistant<|channel|>final<|message|>.",
    "Some say\n<think>\nno\n</think>\nand others yes.",
};

#[test]
fn leading_thinking_is_parted_from_the_answer() {
    for (text, thinking, answer) in BLOCKS.into_iter().chain(UNOPENED) {
        assert_eq!(tags().split(text), Split { thinking, answer }, "{text}");
    }
}

#[test]
fn a_tag_that_is_a_word_stays() {
    for text in WORDS {
        let split = tags().split(text);
        assert_eq!((split.thinking, split.answer), ("", text));
    }
}

#[test]
fn tags_that_the_task_speaks_of_belong_to_the_answer() {
    let text = "<reasoning>a</reasoning>\n<answer>b</answer>";
    let tags = Tags::of("Answer as <reasoning>…</reasoning><answer>…</answer>.");
    assert_eq!(tags.split(text).answer, text);
    assert_eq!(tags.split("<think>a</think>b").answer, "b");
    for task in ["What is <THINK> for?", "Write `<Think>`."] {
        let text = "<think>a</think>b";
        assert_eq!(Tags::of(task).split(text).answer, text, "{task}");
    }
    assert_eq!(
        Tags::default().split("<think>a</think>b").answer,
        "<think>a</think>b"
    );
}

#[test]
fn thinking_is_not_shown_while_it_is_written() {
    for size in [1, 2, 3, 7, 1_000] {
        for (text, _, answer) in BLOCKS {
            assert_eq!(shown(&tags(), text, size), answer, "{text} {size}");
        }
        for text in WORDS {
            assert_eq!(shown(&tags(), text, size), text, "{text} {size}");
        }
    }
    // Text is shown at once if no tag can follow.
    let mut answer = AnswerText::new(tags());
    assert_eq!(
        (answer.push("<thi"), answer.push("s is"), answer.push(" it")),
        (String::new(), "<this is".to_owned(), " it".to_owned())
    );
}

#[test]
fn after_one_closing_tag_alone_the_next_answers_are_held_back_up_to_theirs() {
    for size in [1, 2, 3, 7, 1_000] {
        for (text, _, answer) in UNOPENED {
            let tags = tags();
            assert_eq!(tags.split("a\n</think>\nb").answer, "b");
            assert_eq!(shown(&tags, text, size), answer, "{text} {size}");
            assert_eq!(shown(&tags, "<think>a</think>b", size), "b");
            assert_eq!(shown(&tags, "no thinking", size), "no thinking");
        }
    }
}

#[test]
fn parting_takes_time_linear_in_the_text() {
    for part in list! {
        "<think>", "</think>", "`</think>` ", "\n</think>", "<think>a</think>", "\"</think>\" ", "</THINK",
        "<|start|>assistant", "<|channel|>analysis<|message|>a<|end|>", " ",
    } {
        let text = part.repeat(30_000);
        for text in [
            text.clone(),
            format!("a\n</think>\n{text}"),
            format!("{text}\n</think>\nb"),
        ] {
            tags().split(&text);
        }
        let tags = tags();
        tags.split("a\n</think>\nb");
        shown(&tags, &text, 100);
    }
}

proptest! {
    #[test]
    fn what_is_shown_is_the_answer(text in "(<think>|</think>|<THINK>|</Think>|<think|<\\|start\\|>assistant|<\\|end\\|>|\n|a| |`|<|/)*{0,20}", size in 1_usize..9) {
        let tags = tags();
        let whole = tags.split(&text).answer.to_owned();
        prop_assert!(text.ends_with(&whole));
        // A closing tag alone is known only once it is there.
        if !tags.is_closed_only.load(Ordering::Relaxed) {
            prop_assert_eq!(shown(&tags, &text, size), whole);
        }
    }

    #[test]
    fn no_text_panics(text in any::<String>(), size in 1_usize..9) {
        let tags = tags();
        tags.split(&text);
        shown(&tags, &text, size);
    }
}
