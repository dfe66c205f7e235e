//! Entries that listings and searches leave out: `.git`, and entries that the files `.gitignore` and `.ignore` name, by git's
//! rules.

use std::collections::BTreeSet;

use regex::{RegexSet, RegexSetBuilder};
use sortie_sandbox::{Entry, EntryKind, RelPath, Workdir};

use super::glob::{Dialect, translate};
use crate::workspace::ENGINE_FOLDER;

/// The largest file of rules that is read, in bytes.
const RULES_BYTES: u64 = 64 * 1024;
/// Maximum number of bytes that one walk reads of all its files of rules.
const ALL_RULES_BYTES: usize = 1024 * 1024;
/// Memory that the compiled rules of one file may take, in bytes.
const COMPILED_BYTES: usize = 4 * 1024 * 1024;
/// The files of rules, the weaker one first.
const FILES: [&str; 2] = [".gitignore", ".ignore"];

/// Decides which entries a walk keeps. It must be asked about a folder before the entries in it.
pub(super) struct Ignored<'w> {
    workdir: &'w Workdir,
    /// The rules of the folders from the working directory down to the current one, the innermost last.
    rules: Vec<Rules>,
    /// Bytes that may still be read of files of rules.
    unread: usize,
    /// Number of entries that were left out. A folder counts once; the engine's own files do not count.
    left_out: usize,
    /// Files of rules that excluded something, and `.git`.
    because: BTreeSet<&'static str>,
}

/// The rules of one file.
struct Rules {
    file: &'static str,
    /// The folder of the file, followed by `/`; empty for the working directory.
    folder: String,
    patterns: RegexSet,
    kinds: Vec<Rule>,
}

#[derive(Clone, Copy)]
struct Rule {
    /// The pattern begins with `!`: it reincludes entries that an earlier pattern excluded.
    keeps: bool,
    /// The pattern ends with `/`: it applies only to folders.
    folders_only: bool,
}

impl<'w> Ignored<'w> {
    /// Prepares a walk that begins at `start`, or at the working directory. Rules of the folders above apply as well. The start
    /// itself is never left out.
    pub(super) fn new(workdir: &'w Workdir, start: Option<&RelPath>) -> Self {
        let mut ignored = Self {
            workdir,
            rules: Vec::new(),
            unread: ALL_RULES_BYTES,
            left_out: 0,
            because: BTreeSet::new(),
        };
        ignored.enter("");
        if let Some(start) = start {
            let path = start.as_str();
            let above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
            for folder in above.chain([path]) {
                ignored.enter(folder);
            }
        }
        ignored
    }

    /// Whether the walk keeps this entry.
    pub(super) fn keeps(&mut self, entry: &Entry) -> bool {
        let path = entry.path.as_str();
        while self
            .rules
            .last()
            .is_some_and(|rules| !path.starts_with(&rules.folder))
        {
            self.rules.pop();
        }
        let is_folder = entry.kind == EntryKind::Directory;
        let because = if path.rsplit('/').next() == Some(".git") {
            Some(".git")
        } else {
            self.rules
                .iter()
                .rev()
                .find_map(|rules| Some((rules.decides(path, is_folder)?, rules.file)))
                .and_then(|(rule, file)| (!rule.keeps).then_some(file))
        };
        if let Some(because) = because {
            if !path.starts_with(ENGINE_FOLDER) {
                self.left_out += 1;
                self.because.insert(because);
            }
            return false;
        }
        if is_folder {
            self.enter(path);
        }
        true
    }

    /// A line about the omitted entries, if there are any.
    pub(super) fn note(&self) -> Option<String> {
        let why: Vec<String> = self
            .because
            .iter()
            .map(|because| match *because {
                ".git" => ".git".to_owned(),
                file => format!("what {file} names"),
            })
            .collect();
        match self.left_out {
            0 => None,
            1 => Some(format!(
                "[1 entry is left out ({}): include_ignored: true shows it]\n",
                why.join(", ")
            )),
            many => Some(format!(
                "[{many} entries are left out ({}): include_ignored: true shows them]\n",
                why.join(", ")
            )),
        }
    }

    /// Adds the rules of a folder.
    fn enter(&mut self, folder: &str) {
        let folder = if folder.is_empty() {
            String::new()
        } else {
            format!("{folder}/")
        };
        for file in FILES {
            let read = RelPath::new(&format!("{folder}{file}"))
                .ok()
                .and_then(|path| self.workdir.read(&path, RULES_BYTES).ok());
            let Some(bytes) = read else { continue };
            let Some(unread) = self.unread.checked_sub(bytes.len()) else {
                continue;
            };
            self.unread = unread;
            self.rules
                .extend(Rules::parse(file, &folder, &String::from_utf8_lossy(&bytes)));
        }
    }
}

impl Rules {
    /// `None` if it has no valid rule.
    fn parse(file: &'static str, folder: &str, text: &str) -> Option<Self> {
        let (regexes, kinds): (Vec<String>, Vec<Rule>) = text.lines().filter_map(rule).unzip();
        if kinds.is_empty() {
            return None;
        }
        let (patterns, kinds) = if let Some(patterns) = compiled(&regexes) {
            (patterns, kinds)
        } else {
            // A broken pattern must not invalidate the other rules of its file.
            let rules = regexes.into_iter().zip(kinds);
            let (regexes, kinds): (Vec<String>, Vec<Rule>) = rules
                .filter(|(regex, _)| regex::Regex::new(regex).is_ok())
                .unzip();
            (compiled(&regexes)?, kinds)
        };
        Some(Self {
            file,
            folder: folder.to_owned(),
            patterns,
            kinds,
        })
    }

    /// The last rule that matches decides.
    fn decides(&self, path: &str, is_folder: bool) -> Option<Rule> {
        let path = path.strip_prefix(&self.folder)?;
        let matches = self.patterns.matches(path);
        let mut matching = matches.iter().filter_map(|index| self.kinds.get(index)).copied();
        matching.rfind(|rule| is_folder || !rule.folders_only)
    }
}

/// Parses a line of a file of rules: its regular expression and its kind. `None` for a comment, an empty line and an invalid
/// pattern.
fn rule(line: &str) -> Option<(String, Rule)> {
    let mut pattern = line.trim_end_matches('\r');
    // Trailing blanks count only after a backslash.
    while let Some(shorter) = pattern.strip_suffix(' ') {
        if shorter.ends_with('\\') {
            break;
        }
        pattern = shorter;
    }
    if pattern.is_empty() || pattern.starts_with('#') {
        return None;
    }
    let (keeps, pattern) = match pattern.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let (folders_only, pattern) = match pattern.strip_suffix('/') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let anchored = pattern.contains('/');
    let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
    if pattern.is_empty() {
        return None;
    }
    let begin = if anchored { "" } else { "**/" };
    let regex = translate(&format!("{begin}{pattern}"), Dialect::GitIgnore).ok()?;
    Some((regex, Rule { keeps, folders_only }))
}

fn compiled(patterns: &[String]) -> Option<RegexSet> {
    RegexSetBuilder::new(patterns)
        .size_limit(COMPILED_BYTES)
        .dfa_size_limit(COMPILED_BYTES)
        .dot_matches_new_line(true)
        .build()
        .ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decides(rules: &str, path: &str, is_folder: bool) -> bool {
        Rules::parse(".gitignore", "", rules)
            .and_then(|rules| rules.decides(path, is_folder))
            .is_some_and(|rule| !rule.keeps)
    }

    #[test]
    fn rules_decide_as_those_of_git() {
        for (rules, path, is_folder, ignored) in [
            ("*.log", "a.log", false, true),
            ("*.log", "deep/er/a.log", false, true),
            ("*.log", "a.logs", false, false),
            ("/a.log", "a.log", false, true),
            ("/a.log", "b/a.log", false, false),
            ("node_modules/", "web/node_modules", true, true),
            ("node_modules/", "web/node_modules", false, false),
            ("doc/*.txt", "doc/a.txt", false, true),
            ("doc/*.txt", "doc/x/a.txt", false, false),
            ("doc/*.txt", "x/doc/a.txt", false, false),
            ("doc/**/*.txt", "doc/x/y/a.txt", false, true),
            ("**/build", "a/b/build", true, true),
            ("logs/**", "logs/a", false, true),
            ("logs/**", "logs", true, false),
            ("*.log\n!keep.log", "keep.log", false, false),
            ("*.log\n!keep.log", "other.log", false, true),
            ("!keep.log\n*.log", "keep.log", false, true),
            ("# comment\n\n  ", "# comment", false, false),
            (r"\#file", "#file", false, true),
            (r"\!file", "!file", false, true),
            ("file   ", "file", false, true),
            ("file\r\nother", "file", false, true),
            ("a**b", "axb", false, true),
            ("a**b", "a/b", false, false),
            ("a**/b", "a/x/b", false, false),
            ("{a,b}", "a", false, false),
            ("{a,b}", "{a,b}", false, true),
            ("a[0-9]", "a7", false, true),
            ("a[!0-9]", "a7", false, false),
            ("a?c", "abc", false, true),
            ("a?c", "a/c", false, false),
            ("[z-a]\n*.log", "a.log", false, true),
            ("[\n*.log", "a.log", false, true),
        ] {
            assert_eq!(decides(rules, path, is_folder), ignored, "{rules:?} {path}");
        }
    }

    #[test]
    fn a_walk_reads_the_rules_of_each_folder_it_enters() {
        let root = tempfile::tempdir().unwrap();
        let workdir = Workdir::create(root.path(), "run").unwrap();
        for (path, content) in [
            (".gitignore", "*.log\ntarget/\n/top\n"),
            (".git/config", "x"),
            ("a.log", ""),
            ("top", ""),
            ("src/top", ""),
            ("src/.gitignore", "!keep.log\ngenerated.rs\n"),
            ("src/.ignore", "notes\n"),
            ("src/keep.log", ""),
            ("src/generated.rs", ""),
            ("src/notes", ""),
            ("src/main.rs", ""),
            ("web/generated.rs", ""),
            ("target/debug/x", ""),
            ("sub/.git", "gitdir: elsewhere"),
            (".sortie/.gitignore", "*\n"),
            (".sortie/output/1-job.log", ""),
        ] {
            workdir
                .write(&RelPath::new(path).unwrap(), content.as_bytes())
                .unwrap();
        }
        let walk = |start: Option<&str>| {
            let start = start.map(|start| RelPath::new(start).unwrap());
            let mut ignored = Ignored::new(&workdir, start.as_ref());
            let listed = workdir.list_kept(start.as_ref(), (64, 1_000), |entry| ignored.keeps(entry));
            let names: Vec<String> = listed.unwrap().0.into_iter().map(|entry| entry.path).collect();
            (names.join(" "), ignored.note())
        };
        assert_eq!(
            walk(None),
            (
                ".gitignore .sortie src src/.gitignore src/.ignore src/keep.log src/main.rs src/top sub web \
                 web/generated.rs"
                    .to_owned(),
                Some(
                    "[7 entries are left out (.git, what .gitignore names, what .ignore names): include_ignored: true \
                     shows them]\n"
                        .to_owned()
                )
            )
        );
        assert_eq!(
            walk(Some("src")).0,
            "src/.gitignore src/.ignore src/keep.log src/main.rs src/top"
        );
        assert_eq!(
            walk(Some("target")),
            ("target/debug target/debug/x".to_owned(), None)
        );
        assert_eq!(walk(Some(".git")), (".git/config".to_owned(), None));
    }

    proptest! {
        #[test]
        fn no_rules_panic(rules in "[a*?\\[\\]!/\\\\ #\n{}-]{0,40}", path in "[a/]{1,8}") {
            decides(&rules, &path, true);
        }
    }
}
