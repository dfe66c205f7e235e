//! The cases that other agents test their editors with, translated to calls of this tool: the patches and the line search of
//! codex, the white space of crush, the editor of `OpenHands`.

use serde_json::json;

use super::{
    Attempt,
    Wished::{File, Refused},
};

pub(super) fn codex_lines() -> Vec<Attempt> {
    let call = |old: &str, new: &str| json!({"path": "f", "old_text": old, "new_text": new});
    attempts! {
        "a sequence of lines", "foo\nbar\nbaz\n", call("bar\nbaz", "qux\nbaz"), File("foo\nqux\nbaz\n");
        "white space at line ends", "foo   \nbar\t\t\n", call("foo\nbar", "foo\nqux"), File("foo   \nqux\n");
        "white space on both sides", "    foo   \n   bar\t\n", call("foo\nbar", "foo\nqux"), File("    foo   \n   qux\n");
        "more lines than the file has", "just one line\n", call("too\nmany\nlines", "x"), Refused("does not occur");
        "an edit of one line", "line1\nline2\n", call("line2", "changed"), File("line1\nchanged\n");
        "one of several pieces", "line1\nline2\nline3\nline4\n", call("line1\nline2", "line1\nchanged2"),
            File("line1\nchanged2\nline3\nline4\n");
        "context that is missing", "line1\nline2\n", call("missing", "changed"), Refused("does not occur");
        "an update of a missing file", None::<&str>, call("old", "new"), Refused("no such file");
        "a file that is added", None::<&str>, call("", "This is a new file\n"), File("This is a new file\n");
        "a file that is there is not added", "old content\n", call("", "new content\n"), Refused("old_text is empty");
    }
}

pub(super) fn codex_patches() -> Vec<Attempt> {
    let call = |old: &str, new: &str| json!({"path": "f", "old_text": old, "new_text": new});
    attempts! {
        "a line behind others", "line1\nline2\n", call("line2\n", "line2\nadded line 1\nadded line 2\n"),
            File("line1\nline2\nadded line 1\nadded line 2\n");
        "lines that are only taken out", "line1\nline2\nline3\n", call("line2\n", ""), File("line1\nline3\n");
        "the last lines of a file", "first\nsecond\n", call("first\nsecond\n", "first\nsecond updated\n"),
            File("first\nsecond updated\n");
        "a file without a line break at its end", "no newline at end",
            call("no newline at end\n", "first line\nsecond line\n"), File("first line\nsecond line");
        "characters beyond ASCII", "na\u{ef}ve caf\u{e9}\n", call("na\u{ef}ve caf\u{e9}", "na\u{ef}ve caf\u{e9} \u{2705}"),
            File("na\u{ef}ve caf\u{e9} \u{2705}\n");
        "a comment with typographic dashes", "import asyncio  # local import \u{2013} avoids top\u{2011}level dep\n",
            call("import asyncio  # local import - avoids top-level dep", "import asyncio  # HELLO"),
            File("import asyncio  # HELLO\n");
        "an edit without a change", "line1\n", call("line1", "line1"), Refused("are the same");
        "lines between others", "a\nb\nc\nd\ne\nf\n", call("c\nd", "c\nD1\nD2"), File("a\nb\nc\nD1\nD2\ne\nf\n");
    }
}

pub(super) fn crush_indentation() -> Vec<Attempt> {
    let call = |old: &str, new: &str| json!({"file_path": "f", "old_string": old, "new_string": new});
    let deep = "func main() {\n\tif x {\n\t\tif y {\n\t\t\tfoo()\n\t\t}\n\t}\n}\n";
    attempts! {
        "an exact piece", "func foo() {\n\treturn 1\n}\n", call("func foo() {\n\treturn 1\n}", "replaced"),
            File("replaced\n");
        "tabs by spaces", "func foo() {\n\treturn 1\n}\n",
            call("func foo() {\n    return 1\n}", "func foo() {\n    return 2\n}"), File("func foo() {\n\treturn 2\n}\n");
        "tabs by spaces, the new text with tabs", "func foo() {\n\treturn 1\n}\n",
            call("func foo() {\n    return 1\n}", "func foo() {\n\treturn 2\n}"), File("func foo() {\n\treturn 2\n}\n");
        "spaces by tabs", "func foo() {\n    return 1\n}\n",
            call("func foo() {\n\treturn 1\n}", "func foo() {\n\treturn 2\n}"), File("func foo() {\n    return 2\n}\n");
        "two spaces for four", "func foo() {\n    return 1\n}\n",
            call("func foo() {\n  return 1\n}", "func foo() {\n  return 2\n}"), File("func foo() {\n    return 2\n}\n");
        "too little depth in the same style", "func main() {\n\tif ok {\n\t\told()\n\t}\n}\n",
            call("if ok {\n\told()\n}", "if ok {\n\tnew()\n}"), File("func main() {\n\tif ok {\n\t\tnew()\n\t}\n}\n");
        "too much depth in the same style", "\tif ok {\n\t\told()\n\t}\n",
            call("\t\tif ok {\n\t\t\told()\n\t\t}", "\t\tif ok {\n\t\t\tnew()\n\t\t}"), File("\tif ok {\n\t\tnew()\n\t}\n");
        "no depth and spaces for tabs", deep,
            call("if x {\n    if y {\n        foo()\n    }\n}", "if x {\n    if y {\n        bar()\n    }\n}"),
            File("func main() {\n\tif x {\n\t\tif y {\n\t\t\tbar()\n\t\t}\n\t}\n}\n");
    }
}

pub(super) fn crush_white_space() -> Vec<Attempt> {
    let call = |old: &str, new: &str| json!({"file_path": "f", "old_string": old, "new_string": new});
    attempts! {
        "a class by spaces", "class Foo:\n\tdef bar(self):\n\t\treturn 42\n",
            call("class Foo:\n    def bar(self):\n        return 42", "class Foo:\n    def bar(self):\n        return 43"),
            File("class Foo:\n\tdef bar(self):\n\t\treturn 43\n");
        "one line by spaces", "func main() {\n\tfoo()\n}\n", call("    foo()", "    bar()"),
            File("func main() {\n\tbar()\n}\n");
        "white space at line ends", "func foo() {\n\treturn 1\n}\n",
            call("func foo() {  \n\treturn 1  \n}", "func foo() {\n\treturn 2\n}"), File("func foo() {\n\treturn 2\n}\n");
        "white space at the end of each line", "line 1\nline 2\nline 3\n", call("line 1  \nline 2  ", "LINE 1\nLINE 2"),
            File("LINE 1\nLINE 2\nline 3\n");
        "no line break at the end of the old text", "hello\nworld\n", call("hello\nworld", "HELLO\nWORLD"),
            File("HELLO\nWORLD\n");
        "a line break too many at the end", "line1\nline2", call("line1\nline2\n", "line1\nline3\n"), File("line1\nline3");
        "several blank lines for one", "line1\n\nline2\n", call("line1\n\n\n\nline2", "line1\n\n\n\nline3"),
            File("line1\n\nline3\n");
        "blank lines around", "line1\nline2\n", call("\n\nline1\nline2\n\n", "line1\nline3"), File("line1\nline3\n");
    }
}

pub(super) fn crush_copies() -> Vec<Attempt> {
    let call = |old: &str, new: &str| json!({"file_path": "f", "old_string": old, "new_string": new});
    let all = |old: &str, new: &str| json!({"file_path": "f", "old_string": old, "new_string": new, "replace_all": true});
    let two = "func a() {\n\tfoo()\n}\nfunc b() {\n\tfoo()\n}\n";
    attempts! {
        "line numbers of a listing", "line1\nline2\nline3\n", call("  1|line1\n  2|line2\n  3|line3", "line1\nLINE2\nline3"),
            File("line1\nLINE2\nline3\n");
        "a fence around", "line1\nline2\n", call("```go\nline1\nline2\n```", "```go\nline1\nline3\n```"),
            File("line1\nline3\n");
        "a character without a width", "line1\nline2\n", call("line\u{200b}1\nline2", "line1\nline3"), File("line1\nline3\n");
        "lines taken out by spaces", "func foo() {\n\treturn 1\n}\n\nfunc bar() {\n\treturn 2\n}\n",
            call("func foo() {\n    return 1\n}\n\n", ""), File("func bar() {\n\treturn 2\n}\n");
        "every place by spaces", two, all("    foo()", "    bar()"), File("func a() {\n\tbar()\n}\nfunc b() {\n\tbar()\n}\n");
        "every place", "foo bar\nfoo baz\n", all("foo ", "FOO "), File("FOO bar\nFOO baz\n");
        "several places", "foo\nbar\nfoo\n", call("foo", "FOO"), Refused("2 times");
        "several places by spaces", two, call("    foo()", "    bar()"), Refused("2 times (but for indentation)");
        "another function", two, call("func x() {\n    foo()\n}", "func x() {\n    bar()\n}"), Refused("does not occur");
    }
}

pub(super) fn crush_refusals() -> Vec<Attempt> {
    let call = |old: &str, new: &str| json!({"file_path": "f", "old_string": old, "new_string": new});
    let all = |old: &str, new: &str| json!({"file_path": "f", "old_string": old, "new_string": new, "replace_all": true});
    let two = "func a() {\n\tfoo()\n}\nfunc b() {\n\tfoo()\n}\n";
    attempts! {
        "a piece that begins within a line", two, all("{\n    foo()\n}", "{\n    bar()\n}"), Refused("does not occur");
        "more blanks within a line", "before foo = 1 after\n", call("foo  =  1", "foo  =  2"), Refused("does not occur");
        "fewer blanks within a line", "a  b   c   a  b\n", all("a b", "Z"), Refused("does not occur");
        "a piece that has changed since", "func target() {\n\tactual body\n}\n",
            call("func target() {\n\tstale body\n}", "func target() {\n\tnew body\n}"), Refused("line 1 of the file");
        "quite another text", "package main\n\nfunc main() {}\n", call("this text does not exist anywhere", "x"),
            Refused("nothing in the file is like it");
        "an empty text", "some content\n", call("", "x"), Refused("old_text is empty");
    }
}

pub(super) fn openhands_texts() -> Vec<Attempt> {
    let call = |old: &str, new: &str| json!({"path": "f", "old_str": old, "new_str": new});
    let test = "This is a test file.\nThis file is for testing purposes.";
    attempts! {
        "words", test, call("test file", "sample file"), File("This is a sample file.\nThis file is for testing purposes.");
        "two lines", test, call(test, "This is a sample file.\nThis file is for testing purposes."),
            File("This is a sample file.\nThis file is for testing purposes.");
        "lines with tabs", "def test():\n\tprint(\"Hello, World!\")",
            call("def test():\n\tprint(\"Hello, World!\")", "def test():\n\tprint(\"Hello, Universe!\")"),
            File("def test():\n\tprint(\"Hello, Universe!\")");
        "a word that occurs more often", test, call("test", "sample"), Refused("at lines 1, 2");
        "a block that occurs twice",
            "def example():\n    print(\"Hello\")\n    return True\n\nprint('separator')\n\ndef example():\n    print(\"Hello\")\n    return True",
            call("def example():\n    print(\"Hello\")\n    return True", "def new():\n    print(\"World\")"),
            Refused("at lines 1, 7");
        "a line that is not there", test, call("Non-existent Line", "New Line"), Refused("does not occur");
    }
}

pub(super) fn openhands_refusals() -> Vec<Attempt> {
    let call = |old: &str, new: &str| json!({"path": "f", "old_str": old, "new_str": new});
    let test = "This is a test file.\nThis file is for testing purposes.";
    attempts! {
        "a line that is taken out", "Line 1\nLine to remove\nLine 3", call("Line to remove\n", ""), File("Line 1\nLine 3");
        "an empty old text", "Line 1\nLine 2\nLine 3", call("", "New string"), Refused("old_text is empty");
        "null for the old text", test, json!({"path": "f", "old_str": null, "new_str": "new content"}),
            Refused("old_text is missing; it must be a string");
        "no old text", test, json!({"path": "f", "new_str": "sample"}), Refused("old_text is missing");
        "the same text twice", test, call("test file", "test file"), Refused("are the same");
        "a field that belongs to another editor", test,
            json!({"path": "f", "old_str": "test file", "new_str": "x", "security_risk": "LOW"}),
            File("This is a x.\nThis file is for testing purposes.");
        "an inserted line", "Line 1\nLine 2\n", call("Line 1\n", "Line 1\nInserted line\n"),
            File("Line 1\nInserted line\nLine 2\n");
    }
}
