//! Edits of single texts: the file after them, and the answer.

use proptest::prelude::*;
use sortie_testkit::rows;

use super::{folded::Folded, *};

fn arguments(old_text: &str, new_text: &str, replace_all: bool) -> Arguments {
    Arguments {
        path: "f".to_owned(),
        old_text: old_text.to_owned(),
        new_text: new_text.to_owned(),
        replace_all,
    }
}

fn changed(content: &str, old: &str, new: &str) -> Result<String, String> {
    edited(Some(content), &arguments(old, new, false)).map(|done| done.content)
}

fn said(content: &str, old: &str, new: &str) -> String {
    edited(Some(content), &arguments(old, new, false))
        .unwrap()
        .how
        .unwrap()
}

#[test]
fn the_answer_shows_the_lines_around_the_change() {
    let file = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n";
    assert_eq!(
        said(file, "6\n", "six\nseven\n"),
        "at line 6\n     2\t2\n     3\t3\n     4\t4\n     5\t5\n     6\tsix\n     7\tseven\n     8\t7\n     9\t8\n    \
         10\t9\n    11\t10\n"
    );
    let long: Vec<String> = (0..40).map(|line| format!("new {line}\n")).collect();
    let long = long.concat();
    let told = said(file, "6\n", &long);
    assert!(
        told.contains("new 7\n[24 more lines of new_text]\n    38\tnew 32\n"),
        "{told}"
    );
    assert_eq!(told.lines().count(), 1 + 4 + 8 + 1 + 8 + 4);
    assert_eq!(said("a", "a", "b"), "at line 1\n     1\tb\n");
    assert_eq!(said("a\nb\n", "a\nb\n", ""), "at line 1\n");
}

#[test]
fn the_answer_says_what_was_left_aside() {
    for (file, old, new, what) in rows! {
        "a  \nb\n", "a\nb", "c", "but for white space at the ends of lines";
        "\ta\n\tb\n", "  a\n  b", "c", "but for indentation";
        "\u{201c}a\u{201d}\n", "\"a\"", "c", "but for typographic characters";
        "  \u{201c}a\u{201d}\n", "\t\"a\"", "c", "but for indentation and typographic characters";
        "a\n\nb\n", "a\n\n\nb", "c", "but for indentation and blank lines";
        "a\nb\n", "1\ta\n2\tb", "c", "without its line numbers";
        "  a\n  b\n", "```\na\nb\n```", "c", "without its fence, but for indentation";
    } {
        let told = said(file, old, new);
        let wanted = format!("at line 1; old_text was found there {what}\n");
        assert!(told.starts_with(&wanted), "{what}: {told}");
    }
    assert!(said("a\r\nb\r\n", "a\nb", "c").starts_with("at line 1\n"));
}

#[test]
fn a_text_that_is_not_unique_is_named_with_its_lines() {
    assert_eq!(
        changed("x\nb\nx\nx", "x", "y").unwrap_err(),
        "old_text occurs 3 times, at lines 1, 3, 4; take in more lines around the one you mean, or set replace_all"
    );
    assert_eq!(
        changed("\tx()\n\n  x()\n", "   x()", "y").unwrap_err(),
        "old_text occurs 2 times (but for indentation), at lines 1, 3; take in more lines around the one you mean, or \
         set replace_all"
    );
    // Two overlapping matches count as two.
    assert!(
        changed("}\n}\n}\n", "}\n}", "x")
            .unwrap_err()
            .contains("2 times, at lines 1, 2")
    );
    let all = edited(Some("x\nb\nx\nx"), &arguments("x", "y", true)).unwrap();
    assert_eq!(all.content, "y\nb\ny\ny");
    assert!(all.how.unwrap().starts_with("at lines 1, 3, 4\n"));
}

#[test]
fn places_in_one_line_are_named_once() {
    assert_eq!(
        changed("aaa\n", "aa", "b").unwrap_err(),
        "old_text occurs 2 times, at line 1; take in more lines around the one you mean, or set replace_all"
    );
    let all = edited(Some("x x\nx"), &arguments("x", "y", true)).unwrap();
    assert!(all.how.unwrap().starts_with("at lines 1, 2\n"));
}

#[test]
fn lines_that_end_with_returns_alone_are_edited_as_others() {
    assert_eq!(
        changed("a\rb\rc\r", "a\nb\n", "x\ny\nz\n"),
        Ok("x\ry\rz\rc\r".to_owned())
    );
    assert_eq!(changed("a\r  b\r", "a\r\nb", "a\r\nc"), Ok("a\r  c\r".to_owned()));
    assert!(said("a\rb\rc\r", "b", "x").starts_with("at line 2\n     1\ta\n     2\tx\n"));
    assert_eq!(
        changed("a\rb\ra", "a", "x").unwrap_err(),
        "old_text occurs 2 times, at lines 1, 3; take in more lines around the one you mean, or set replace_all"
    );
    // A carriage return within a line of a file with other line breaks is text.
    assert_eq!(changed("a\rb\nc\n", "a\rb", "x"), Ok("x\nc\n".to_owned()));
    assert!(changed("a\rb\nc\n", "a\nb", "x").is_err());
}

#[test]
fn html_references_and_forms_of_letters_are_read() {
    assert_eq!(
        changed(
            "if (a && b) {\n",
            "if (a &amp;&amp; b) {",
            "if (a &amp;&amp; c) {"
        ),
        Ok("if (a && c) {\n".to_owned())
    );
    // The file itself contains the references.
    assert_eq!(
        changed("<p>a &amp; b</p>\n", "a &amp; b", "a &amp; c"),
        Ok("<p>a &amp; c</p>\n".to_owned())
    );
    // Unchanged letters keep the form of the file.
    assert_eq!(
        changed("x = \"cafe\u{301}\"\n", "\"caf\u{e9}\"", "\"th\u{e9}\""),
        Ok("x = \"the\u{301}\"\n".to_owned())
    );
    assert_eq!(
        changed("caf\u{e9} a\n", "cafe\u{301} a", "cafe\u{301} b"),
        Ok("caf\u{e9} b\n".to_owned())
    );
    let told = changed("x\nif (a && b) {\n", "if (a &amp;&amp; b) {\n  z();", "y").unwrap_err();
    assert!(told.contains("its first line is line 2 of the file"), "{told}");
    let told = changed("x\ncafe\u{301} a b c\n", "caf\u{e9} a b c d", "y").unwrap_err();
    assert!(told.contains("the closest is line 2"), "{told}");
}

#[test]
fn no_edit_takes_more_memory_than_its_bounds() {
    let file = "a".repeat(100_000);
    let told = edited(Some(&file), &arguments("a", &"b".repeat(1_000), true)).unwrap_err();
    assert_eq!(told, "the new text would take more than 16777216 bytes");
    let told = changed(&file, &"a".repeat(10), "b").unwrap_err();
    assert!(
        told.starts_with("old_text occurs at least 1000 times, at line"),
        "{told}"
    );
    let lines = "  a\n".repeat(100_000);
    let told = changed(&lines, &"a\n".repeat(10), "b\n").unwrap_err();
    assert!(
        told.starts_with("old_text occurs at least 1000 times (but for indentation), at lines 1, 2"),
        "{told}"
    );
}

#[test]
fn a_text_that_is_not_there_leads_to_what_is_like_it() {
    let file = "fn main() {\n    let total = sum(&values);\n    println!(\"{total}\");\n}\n";
    assert_eq!(
        changed(file, "let totals = sum(&value);", "").unwrap_err(),
        "old_text does not occur; the closest is line 2: \"    let total = sum(&values);\""
    );
    assert!(
        changed(file, "  let total = sum(&values);\n  print", "")
            .unwrap_err()
            .contains("line 2 of the file")
    );
    assert!(
        changed(file, "struct Nothing;", "")
            .unwrap_err()
            .ends_with("nothing in the file is like it")
    );
    assert!(
        changed(file, "", "x")
            .unwrap_err()
            .starts_with("old_text is empty")
    );
    assert!(changed(file, "a", "a").unwrap_err().ends_with("are the same"));
    assert_eq!(
        changed(file, "let sum = 1;", "let total = sum(&values);").unwrap_err(),
        "old_text does not occur, and new_text is there already, at line 2"
    );
}

#[test]
fn what_a_change_leaves_alone_stays_as_the_file_has_it() {
    assert_eq!(
        changed(
            "\u{201c}It\u{2019}s\u{201d} \u{2014} he said\u{2026}\n",
            "\"It's\" - he said...",
            "\"It's\" - she said..."
        ),
        Ok("\u{201c}It\u{2019}s\u{201d} \u{2014} she said\u{2026}\n".to_owned())
    );
    assert_eq!(
        changed("a  \r\nb\t\r\nc\r\n", "a\nb\nc", "a\nx\nc"),
        Ok("a  \r\nx\r\nc\r\n".to_owned())
    );
    // Part of an ellipsis cannot be removed.
    assert_eq!(
        changed("wait\u{2026} go\u{a0}on\n", "wait... go on", "wait.. go on"),
        Ok("wait.. go\u{a0}on\n".to_owned())
    );
    assert!(changed("a\u{2026}b\u{a0}c\n", "a.", "x").is_err());
}

#[test]
fn white_space_at_the_end_of_the_old_text_stands_for_the_end_of_a_line() {
    assert!(changed("foobar\n", "foo  ", "x").is_err());
    assert_eq!(changed("foo\n", "foo  ", "x"), Ok("x\n".to_owned()));
}

#[test]
fn an_indentation_that_cannot_be_told_changes_nothing() {
    // Two lines without indentation are at two depths in the file: a line between them could have either.
    let told = changed("if a:\n    x()\ny()\n", "if a:\nx()\ny()", "if a:\nx()\nw()\ny()").unwrap_err();
    assert!(told.contains("another indentation"), "{told}");
    assert_eq!(
        changed("if a:\n    x()\ny()\n", "if a:\nx()\ny()", "if a:\nx()\nz()"),
        Ok("if a:\n    x()\nz()\n".to_owned())
    );
}

proptest! {
    #[test]
    fn one_replacement_is_undone_by_its_opposite(
        before in "[ab\n]{0,20}", old in "[cd\n]{0,4}[cd]", new in "[ef]{1,4}", after in "[ab\n]{0,20}",
    ) {
        let content = format!("{before}{old}{after}");
        let there = changed(&content, &old, &new).map_err(TestCaseError::fail)?;
        prop_assert_eq!(&there, &format!("{before}{new}{after}"));
        prop_assert_eq!(changed(&there, &new, &old), Ok(content));
    }

    #[test]
    fn lines_outside_of_the_place_never_change(
        before in "([ab]{1,3}\n){0,4}", after in "([ab]{1,3}\n){0,4}",
        old in "( {0,4}\t?[cd]{1,3} {0,2}\n){1,4}", new in "( {0,4}\t?[ef]{1,3}\n){0,4}", indent in " {0,4}|\t{1,2}",
    ) {
        let placed: Vec<String> = old.lines().map(|line| format!("{indent}{}\n", line.trim())).collect();
        let placed = placed.concat();
        let content = format!("{before}{placed}{after}");
        if let Ok(there) = changed(&content, &old, &new) {
            prop_assert!(there.starts_with(&before) && there.ends_with(&after), "{there:?}");
            let middle = &there[before.len()..there.len() - after.len()];
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(words(middle), words(&new));
        }
    }

    /// Texts without white space and typography: what every edit must keep.
    #[test]
    fn an_edit_replaces_the_old_text_by_the_new_one_and_nothing_else(
        content in "([ab.]|\u{2026}|\u{201c}|\u{200b}|[ \t]|\u{a0}|\r?\n){0,24}",
        old in "[ab.\" \t\n]{1,8}", new in "[abc.\" \t\n]{0,8}",
    ) {
        let bare = |text: &str| -> String {
            let plain = Folded::new(text, Fold::Typography).text;
            plain.chars().filter(|c| !c.is_whitespace()).collect()
        };
        if let Ok(there) = changed(&content, &old, &new) {
            let (content, old, new, there) = (bare(&content), bare(&old), bare(&new), bare(&there));
            let mut places = (0..=content.len()).filter(|at| content[*at..].starts_with(&old));
            prop_assert!(places.any(|at| {
                format!("{}{new}{}", &content[..at], &content[at + old.len()..]) == there
            }), "{there:?}");
        }
    }

    #[test]
    fn no_text_panics(content in any::<String>(), old in any::<String>(), new in any::<String>()) {
        let _ = changed(&content, &old, &new);
    }

    #[test]
    fn no_white_space_panics(
        content in "[a\u{2026}\u{a0}\u{200b} \t\r\n]{0,24}", old in "[a. \t\r\n]{0,8}", new in "[ab. \t\n]{0,8}", all in any::<bool>(),
    ) {
        let _ = edited(Some(&content), &arguments(&old, &new, all));
    }
}
