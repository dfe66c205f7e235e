"""Tests of scripts/words and scripts/citations."""

import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True


def load(name):
    path = str(pathlib.Path(__file__).resolve().parent / name)
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


words = load("words")
citations = load("citations")


def tree(files):
    folder = tempfile.TemporaryDirectory()
    for name, text in files.items():
        path = pathlib.Path(folder.name) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def riddles(source):
    return [found.line for found in words.riddles("a.rs", source)[1]]


class Riddles(unittest.TestCase):
    def test_a_comment_that_keeps_its_subject_back_is_a_riddle(self):
        for opening in ["What it costs.", "Its id.", "The same, twice.", "`Where` it lies.", "All of them."]:
            self.assertEqual(riddles(f"/// {opening}\npub cost: i64,\n"), [1], opening)

    def test_a_comment_that_names_its_subject_is_none(self):
        for opening in ["Cost in micros.", "Returns the newest first.", "Whatever.", "The samples.", "Italic."]:
            self.assertEqual(riddles(f"/// {opening}\npub cost: i64,\n"), [], opening)

    def test_only_the_first_line_of_a_comment_opens_it(self):
        self.assertEqual(riddles("//! A clock.\n//! Its hands turn.\n\n/// Its face.\nstruct A;\n"), [4])

    def test_whether_may_open_a_bool_alone(self):
        self.assertEqual(riddles("/// Whether it runs.\n#[serde(\n    default\n)]\npub on: bool,\n"), [])
        self.assertEqual(riddles("/// Whether it runs.\nfn on(\n    &self,\n    at: u8,\n) -> bool {\n"), [])
        self.assertEqual(riddles("/// Whether it runs.\npub state: State,\npub on: bool,\n"), [1])

    def test_ordinary_comments_are_not_counted(self):
        self.assertEqual(words.riddles("a.rs", "// What it costs.\n//// Its line.\n"), (0, []))


class UserTexts(unittest.TestCase):
    def found(self, source):
        return [found.line for found in words.user_texts("a.rs", source)]

    def test_help_texts_of_metrics_are_read(self):
        register = 'registry.register(\n    "run_seconds",\n    "{}",\n    self.runs.clone(),\n);\n'
        self.assertEqual(self.found(register.format("How long runs took")), [3])
        self.assertEqual(self.found(register.format("Duration of runs")), [])
        self.assertEqual(self.found('gauge(&mut encoder, "runs", "Those that wait.", 1)?;\n'), [1])
        self.assertEqual(self.found('encoder.encode_descriptor("runs", "What waits.", None, GAUGE)?;\n'), [1])

    def test_descriptions_of_operations_and_options_are_read(self):
        for source in [
            '(status = 204, description = "It is gone."),',
            '("id" = RunId, Path, description = "Which run.", example = "run_1"),',
            '.description(Some("One message of it."))',
            '#[arg(long, help = "What to do")]',
            '#[command(about = "So it goes")]',
            'json!({"limit": {"type": "integer", "description": "How many results."}})',
            '"description": "What the runs cost."',
            'summary: "Some callbacks were abandoned"',
        ]:
            self.assertEqual(self.found(source), [1], source)

    def test_a_text_that_names_its_subject_is_none(self):
        for source in [
            '(status = 204, description = "The run is gone."),',
            '"description": "The \\"what\\" of it."',
            '[("kind", "what it is")]',
            'let what = "What is this?";',
        ]:
            self.assertEqual(self.found(source), [], source)

    def test_a_text_that_goes_on_in_the_next_line_is_read_from_its_start(self):
        self.assertEqual(self.found('description = "\\\n    What it costs,\\\n    in micros."'), [1])

    def test_whether_may_open_a_bool_alone(self):
        self.assertEqual(self.found('("on" = Option<bool>, Query, description = "Whether it runs."),'), [])
        self.assertEqual(self.found('("on" = Option<State>, Query, description = "Whether it runs."),'), [1])


class Defaults(unittest.TestCase):
    def found(self, source):
        return [found.line for found in words.default_comments("default.toml", source)]

    def test_each_comment_is_read_from_its_start(self):
        self.assertEqual(self.found("# What it does.\na = 1\n\n# Limit. Default: 1.\n# What is more, a limit.\nb = 1\n"), [1])
        self.assertEqual(self.found("# Limit.\na = 1\n# Its size.\n# b = 2\n# How long.\n"), [3, 5])
        self.assertEqual(self.found("# Plans:\n#\n# [[plans]]\n# it = 1     # which one\n#\n# Who pays.\n"), [6])

    def test_whether_may_open_a_switch_alone(self):
        self.assertEqual(self.found("# Whether it runs.\n# Default: no.\non = false\n"), [])
        self.assertEqual(self.found("# Whether it runs.\n# on = true\n"), [])
        self.assertEqual(self.found('# Whether it runs.\nmode = "no"\n'), [1])


class LongLines(unittest.TestCase):
    def long(self, text):
        return [found.line for found in words.long_lines("a.md", text)]

    def test_a_line_is_long_above_a_hundred_characters(self):
        self.assertEqual(self.long("a" * 100 + "\n" + "ä" * 100 + "\n" + "a" * 101 + "\n"), [3])

    def test_tables_code_and_targets_of_links_are_not_counted(self):
        self.assertEqual(self.long("| " + "a" * 200 + " |"), [])
        self.assertEqual(self.long("```sh\n" + "a" * 200 + "\n```') \n" + "a" * 200 + "\n```\n"), [])
        self.assertEqual(self.long("[a](" + "a" * 200 + ")"), [])
        self.assertEqual(self.long("[" + "a" * 200 + "](b)"), [1])


class Idioms(unittest.TestCase):
    def test_each_idiom_in_a_comment_counts_and_none_in_code(self):
        source = 'let told = "behind"; // told\n/// Nobody is told\n//! beside\n// the fold behinds\n'
        self.assertEqual([found.line for found in words.idioms("a.rs", source)[1]], [2, 2, 3])
        self.assertEqual(words.idioms("a.rs", "// Two words.\ncode();\n")[0], 3)

    def test_a_page_counts_whole(self):
        self.assertEqual([found.line for found in words.idioms("a.md", "plain\nwhat is new\n")[1]], [2])


class Ratchet(unittest.TestCase):
    def compare(self, figure, kept):
        findings = {("riddles", "api"): [words.Finding("a.rs", 1, "What.")] * figure}
        return words.compare(findings, {("riddles", "api"): kept} if kept else {})

    def test_a_figure_may_not_go_up(self):
        self.assertEqual(self.compare(3, 2), ([("riddles", "api")], []))
        self.assertEqual(self.compare(1, 0), ([("riddles", "api")], []))

    def test_a_lower_figure_passes_and_is_told(self):
        self.assertEqual(self.compare(2, 3), ([], [("riddles", "api")]))
        self.assertEqual(words.compare({}, {("long-lines", "gone.md"): 1}), ([], [("long-lines", "gone.md")]))
        self.assertEqual(self.compare(2, 2), ([], []))

    def test_kept_figures_are_read_as_they_were_written(self):
        kept = {("riddles", "api"): 12, ("long-lines", "docs/API.md"): 3}
        self.assertEqual(words.read_kept(words.write_kept(kept | {("riddles", "net"): 0})), kept)

    def test_a_crate_counts_together_and_a_page_by_itself(self):
        files = {
            "crates/api/src/lib.rs": "/// What.\nstruct A;\n",
            "crates/api/tests/a.rs": "/// It.\nstruct A;\n",
            "fuzz/src/a.rs": "/// A.\nstruct A;\n",
            "docs/A.md": "a" * 101,
            "docs/B.md": "Nobody is told.",
            "crates/agent/src/prompt.md": "a" * 101,
            "crates/api/src/docs.rs": 'description = "What it is"',
            "crates/api/src/docs/tests.rs": 'description = "What it is"',
            "crates/sortie/src/config/default.toml": "# How many.\na = 1\n",
            "deploy/grafana/sortie.json": '{"description": "Which runs."}',
            "deploy/prometheus/alerts.yml": '  summary: "So many runs"',
            "deploy/other.yml": '  summary: "So many runs"',
        }
        with tree(files) as root:
            findings, comments, _ = words.measure(root, list(files))
        figures = {key: len(found) for key, found in findings.items() if found}
        self.assertEqual(
            figures,
            {
                ("riddles", "api"): 2,
                ("texts", "api"): 1,
                ("texts", "sortie"): 1,
                ("texts", "deploy"): 2,
                ("long-lines", "docs/A.md"): 1,
                ("idioms", "docs/B.md"): 2,
            },
        )
        self.assertEqual(comments, {"api": 2, "fuzz": 1})


class Citations(unittest.TestCase):
    def dead(self, text, name="crates/a/src/lib.rs"):
        files = {"docs/A.md": "# The A\n\n## What it's for: `x`\n\n## Twice\n\n## Twice\n\n<a id=\"old\"></a>\n", name: text}
        with tree(files) as root:
            return [(line, reason) for _, line, reason in citations.Tree(root, [name]).check()]

    def test_pages_and_headings_that_exist_may_be_cited(self):
        for anchor in ["", "#the-a", "#what-its-for-x", "#twice", "#twice-1", "#old"]:
            self.assertEqual(self.dead(f"//! See `docs/A.md{anchor}`.\n"), [], anchor)

    def test_a_page_or_a_heading_that_does_not_exist_is_dead(self):
        self.assertEqual(self.dead("//! \n//! See docs/B.md.\n"), [(2, "no file docs/B.md")])
        self.assertEqual(self.dead("// docs/A.md#twice-2"), [(1, "no heading #twice-2 in docs/A.md")])
        self.assertEqual(self.dead("// SEE.md says so"), [(1, "no page SEE.md")])

    def test_sections_of_documents_that_are_not_here_may_not_be_cited(self):
        for text in ["// contract 2.1", "//! (Contract part\n//! 8)", "-- decisions 4", "Decisions, 2", "the contract, 4.2"]:
            self.assertEqual(len(self.dead(text)), 1, text)
        for text in ["// the contract of `Drop`", "docs/decisions/ has 2 pages", "// decided in 2026"]:
            self.assertEqual(self.dead(text), [], text)

    def test_links_of_pages_are_followed(self):
        self.assertEqual(self.dead("[a](A.md#twice) [b](#b) [c](https://x.example/y.md)\n\n# B\n", "docs/B.md"), [])
        self.assertEqual(self.dead("[a](A.md#thrice)\n", "docs/B.md"), [(1, "no heading #thrice in docs/A.md")])
        self.assertEqual(self.dead("[a](C.md)\n", "docs/B.md"), [(1, "no file docs/C.md")])
        self.assertEqual(self.dead("```text\n[a](C.md)\n```\n", "docs/B.md"), [])


if __name__ == "__main__":
    unittest.main()
