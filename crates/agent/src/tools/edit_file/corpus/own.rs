//! Twenty typical attempts.

use serde_json::json;

use super::{
    Attempt,
    Wished::{File, Refused},
};

const PYTHON: &str = "import os\n\n\nclass Store:\n    def __init__(self, path):\n        self.path = path\n\n    def \
                      load(self):\n        if os.path.exists(self.path):\n            return open(self.path).read()\n        \
                      return None\n";
const GO: &str = "package main\n\nfunc main() {\n\tfor i := 0; i < 3; i++ {\n\t\tprintln(i)\n\t}\n}\n";
const PROSE: &str =
    "# Notes\n\nShe said \u{201c}it\u{2019}s done\u{201d} \u{2014} and left.  \nPrice: 10\u{a0}EUR\u{2026}\n";

pub(super) fn plain() -> Vec<Attempt> {
    attempts! {
        "an exact copy of a line", PYTHON,
            json!({"path": "a.py", "old_text": "        self.path = path\n", "new_text": "        self.path = str(path)\n"}),
            File("import os\n\n\nclass Store:\n    def __init__(self, path):\n        self.path = str(path)\n\n    def load(self):\n        if os.path.exists(self.path):\n            return open(self.path).read()\n        return None\n");
        "a word within a line", "a = 1\nb = 2\n", json!({"path": "a", "old_text": "= 2", "new_text": "= 3"}),
            File("a = 1\nb = 3\n");
        "every occurrence", "foo(foo)\n", json!({"path": "a", "old_text": "foo", "new_text": "bar", "replace_all": true}),
            File("bar(bar)\n");
        "a line that occurs twice", "x = 1\ny = 2\nx = 1\n", json!({"path": "a", "old_text": "x = 1", "new_text": "x = 2"}),
            Refused("2 times, at lines 1, 3");
        "a text that was never there", PYTHON,
            json!({"path": "a.py", "old_text": "def save(self, data):", "new_text": "def store(self):"}),
            Refused("does not occur");
        "line feeds for the line breaks of Windows", "a\r\nb\r\nc\r\n",
            json!({"path": "a", "old_text": "a\nb\n", "new_text": "a\nx\ny\n"}), File("a\r\nx\r\ny\r\nc\r\n");
        "no white space at the end of a line that has it", "one  \ntwo\t\nthree\n",
            json!({"path": "a", "old_text": "one\ntwo\nthree", "new_text": "one\n2\nthree"}), File("one  \n2\nthree\n");
        "white space at the end of lines that have none", "one\ntwo\n",
            json!({"path": "a", "old_text": "one \ntwo \n", "new_text": "one\n2\n"}), File("one\n2\n");
        "spaces for tabs", GO,
            json!({"path": "main.go", "old_text": "    for i := 0; i < 3; i++ {\n        println(i)\n    }", "new_text": "    for i := 0; i < 3; i++ {\n        if i > 0 {\n            println(i)\n        }\n    }"}),
            File("package main\n\nfunc main() {\n\tfor i := 0; i < 3; i++ {\n\t\tif i > 0 {\n\t\t\tprintln(i)\n\t\t}\n\t}\n}\n");
        "lines without the indentation of their block", PYTHON,
            json!({"path": "a.py", "old_text": "if os.path.exists(self.path):\n    return open(self.path).read()\nreturn None", "new_text": "try:\n    return open(self.path).read()\nexcept OSError:\n    return None"}),
            File("import os\n\n\nclass Store:\n    def __init__(self, path):\n        self.path = path\n\n    def load(self):\n        try:\n            return open(self.path).read()\n        except OSError:\n            return None\n");
    }
}

pub(super) fn by_habit() -> Vec<Attempt> {
    attempts! {
        "two spaces a level where the file has four", PYTHON,
            json!({"path": "a.py", "old_text": "class Store:\n  def __init__(self, path):\n    self.path = path", "new_text": "class Store:\n  def __init__(self, path):\n    self.path = path\n    self.open = False"}),
            File("import os\n\n\nclass Store:\n    def __init__(self, path):\n        self.path = path\n        self.open = False\n\n    def load(self):\n        if os.path.exists(self.path):\n            return open(self.path).read()\n        return None\n");
        "straight quotes and a hyphen for typographic ones", PROSE,
            json!({"path": "notes.md", "old_text": "She said \"it's done\" - and left.", "new_text": "She said \"it's done\" - and went home."}),
            File("# Notes\n\nShe said \u{201c}it\u{2019}s done\u{201d} \u{2014} and went home.  \nPrice: 10\u{a0}EUR\u{2026}\n");
        "a blank and three dots for a no-break space and an ellipsis", PROSE,
            json!({"path": "notes.md", "old_text": "Price: 10 EUR...", "new_text": "Price: 12 EUR..."}),
            File("# Notes\n\nShe said \u{201c}it\u{2019}s done\u{201d} \u{2014} and left.  \nPrice: 12\u{a0}EUR\u{2026}\n");
        "line numbers copied from a listing", "alpha\nbeta\ngamma\n",
            json!({"path": "a", "old_text": "     1\talpha\n     2\tbeta", "new_text": "     1\talpha\n     2\tdelta"}),
            File("alpha\ndelta\ngamma\n");
        "line breaks and quotes escaped twice", "say(\"a\");\nsay(\"b\");\n",
            json!({"path": "a", "old_text": "say(\\\"a\\\");\\nsay(\\\"b\\\");", "new_text": "say(\\\"a\\\");\\nsay(\\\"c\\\");"}),
            File("say(\"a\");\nsay(\"c\");\n");
        "a line break at the end where the file has none", "a\nb",
            json!({"path": "a", "old_text": "a\nb\n", "new_text": "a\nc\n"}), File("a\nc");
        "blank lines around the text", "a\nb\nc\n", json!({"path": "a", "old_text": "\nb\n\n", "new_text": "\nx\n\n"}),
            File("a\nx\nc\n");
        "a new file by an empty text", None::<&str>, json!({"path": "new.txt", "old_text": "", "new_text": "hello\n"}),
            File("hello\n");
        "the field names of another tool", "a = 1\n",
            json!({"file_path": "a", "old_string": "a = 1", "new_string": "a = 2", "replace_all": "false"}), File("a = 2\n");
        "arguments wrapped once more, with a number for a string", "port: 80\n",
            json!({"arguments": {"filename": "a", "old_str": 80, "new_str": 8080}}), File("port: 8080\n");
    }
}
