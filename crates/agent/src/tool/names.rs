//! Names of tools and of fields that models know from other agents.

/// Built-in tools, and the names under which models call them by habit, folded by [`folded`].
const TOOLS: &[(&str, &[&str])] = &[
    (
        "shell",
        &[
            "bash",
            "sh",
            "exec",
            "run",
            "cmd",
            "command",
            "terminal",
            "localshell",
            "shellcommand",
            "runcommand",
            "runshell",
            "runshellcommand",
            "runterminalcmd",
            "execcommand",
            "executecommand",
            "executebash",
            "containerexec",
        ],
    ),
    (
        "jobs",
        &[
            "job",
            "bashoutput",
            "joboutput",
            "shelloutput",
            "taskoutput",
            "listjobs",
        ],
    ),
    (
        "read_file",
        &[
            "read",
            "view",
            "cat",
            "openfile",
            "viewfile",
            "getfile",
            "viewimage",
        ],
    ),
    (
        "write_file",
        &["write", "create", "createfile", "savefile", "newfile"],
    ),
    (
        "edit_file",
        &[
            "edit",
            "replace",
            "strreplace",
            "stringreplace",
            "replaceinfile",
            "searchreplace",
            "editfiles",
        ],
    ),
    (
        "list_files",
        &[
            "ls",
            "list",
            "listdir",
            "listdirectory",
            "glob",
            "find",
            "findfiles",
            "filesearch",
            "tree",
        ],
    ),
    (
        "search_files",
        &[
            "grep",
            "rg",
            "ripgrep",
            "grepsearch",
            "grepfiles",
            "searchfile",
            "searchcontent",
            "searchfilecontent",
        ],
    ),
];

/// Fields of built-in tools, and the names that models give them by habit, folded. An earlier field takes precedence for an
/// alias.
pub(super) const FIELDS: &[(&str, &[&str])] = &[
    (
        "path",
        &[
            "file",
            "filepath",
            "filename",
            "targetfile",
            "absolutepath",
            "absolutefilepath",
            "relativepath",
            "pathname",
            "dir",
            "directory",
            "dirpath",
            "folder",
        ],
    ),
    (
        "old_text",
        &[
            "old",
            "oldstr",
            "oldstring",
            "oldcontent",
            "original",
            "search",
            "find",
        ],
    ),
    (
        "new_text",
        &[
            "new",
            "newstr",
            "newstring",
            "newcontent",
            "replacement",
            "replace",
        ],
    ),
    (
        "replace_all",
        &["all", "global", "allowmultiple", "replaceallmatches"],
    ),
    (
        "content",
        &["contents", "text", "filetext", "filecontent", "data"],
    ),
    ("command", &["cmd", "commandline", "shellcommand", "script"]),
    (
        "timeout_seconds",
        &["timeout", "timeouts", "timeoutsec", "timeoutsecs"],
    ),
    ("wait_seconds", &["wait", "waits", "timeout"]),
    ("background", &["runinbackground", "isbackground"]),
    (
        "job",
        &["id", "jobid", "bashid", "shellid", "taskid", "sessionid"],
    ),
    (
        "start_line",
        &["start", "offset", "from", "fromline", "firstline", "linestart"],
    ),
    ("end_line", &["end", "to", "toline", "lastline", "lineend"]),
    (
        "line_numbers",
        &["showlinenumbers", "withlinenumbers", "numbered", "linenumber"],
    ),
    (
        "regex",
        &[
            "regexp",
            "query",
            "search",
            "searchpattern",
            "expression",
            "pattern",
        ],
    ),
    (
        "pattern",
        &[
            "glob",
            "globpattern",
            "include",
            "includepattern",
            "filepattern",
            "filesglob",
            "query",
            "name",
        ],
    ),
    ("ignore_case", &["i", "caseinsensitive", "ignorecasing"]),
    ("context", &["contextlines", "linesofcontext"]),
    ("files_only", &["l", "fileswithmatches", "namesonly"]),
    ("url", &["uri", "link", "href", "address"]),
    ("query", &["q", "searchterm", "searchquery"]),
    ("max_depth", &["depth", "levels"]),
    ("include_ignored", &["noignore", "all", "hidden", "includehidden"]),
];

/// Fields of other tools that do not change the call: reasons, labels, ratings.
const REMARKS: [&str; 20] = [
    "description",
    "explanation",
    "reason",
    "reasoning",
    "justification",
    "purpose",
    "thought",
    "thoughts",
    "comment",
    "instruction",
    "instructions",
    "securityrisk",
    "n",
    "toolname",
    "login",
    "tty",
    "yieldtimems",
    "maxoutputtokens",
    "sandboxpermissions",
    "withescalatedpermissions",
];

/// A name in lower case without `_`, `-`, `.` and blanks, which models write inconsistently.
pub(super) fn folded(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' ' | '.'))
        .flat_map(char::to_lowercase)
        .collect()
}

/// The built-in tool that a model means by `name`.
pub fn tool_named(name: &str) -> Option<&'static str> {
    let name = folded(name.strip_prefix("functions.").unwrap_or(name));
    TOOLS
        .iter()
        .find(|(tool, aliases)| folded(tool) == name || aliases.contains(&name.as_str()))
        .map(|(tool, _)| *tool)
}

/// Maximum length of a tool name that every provider accepts, in bytes.
const LONGEST: usize = 64;

/// `name` in the characters that every provider accepts: they refuse a conversation that contains another name.
pub(crate) fn plain(name: &str) -> String {
    let letter = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
            c
        } else {
            '_'
        }
    };
    let mut plain: String = name.chars().map(letter).take(LONGEST).collect();
    // Gemini takes no digit and no dash at the start.
    if !plain.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        plain.insert(0, '_');
        plain.truncate(LONGEST);
    }
    plain
}

/// Names that a model may mean by `name`, the likeliest first: without the prefix of some harnesses, in plain letters, and
/// without arguments or marks that it appended.
pub(crate) fn readings(name: &str) -> [String; 4] {
    let bare = name.trim().strip_prefix("functions.").unwrap_or(name.trim());
    let is_behind = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '(' | '{' | '=');
    let cut = bare.split(is_behind).next().unwrap_or_default();
    [name.to_owned(), bare.to_owned(), plain(bare), cut.to_owned()]
}

/// Whether a model uses this field for the path of a file.
pub(crate) fn is_path(field: &str) -> bool {
    let field = folded(field);
    FIELDS
        .iter()
        .any(|(name, aliases)| *name == "path" && (field == *name || aliases.contains(&field.as_str())))
}

/// Whether a field is a remark, which a call does not need.
pub(super) fn is_remark(field: &str) -> bool {
    REMARKS.contains(&folded(field).as_str())
}

/// Levenshtein distance of two names, without regard to case. Only the first 64 letters count.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let letters = |text: &str| -> String { text.chars().take(64).flat_map(char::to_lowercase).collect() };
    strsim::levenshtein(&letters(a), &letters(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_found_by_the_names_that_models_know() {
        for (name, tool) in [
            ("Bash", Some("shell")),
            ("run_shell_command", Some("shell")),
            ("container.exec", Some("shell")),
            ("functions.shell", Some("shell")),
            ("str_replace", Some("edit_file")),
            ("BashOutput", Some("jobs")),
            ("Read", Some("read_file")),
            ("readFile", Some("read_file")),
            ("Grep", Some("search_files")),
            ("LS", Some("list_files")),
            ("create_file", Some("write_file")),
            ("apply_patch", None),
            ("", None),
        ] {
            assert_eq!(tool_named(name), tool, "{name}");
        }
    }

    #[test]
    fn a_name_goes_back_in_letters_that_every_provider_takes() {
        let long = "x".repeat(70);
        for (name, expected) in [
            ("get_page", "get_page"),
            ("Get-Page-2", "Get-Page-2"),
            ("multi_tool_use.parallel", "multi_tool_use_parallel"),
            ("a/b c", "a_b_c"),
            ("выборка", "_______"),
            ("2fast", "_2fast"),
            ("-x", "_-x"),
            ("", "_"),
            (&*long, &long[..64]),
        ] {
            assert_eq!(plain(name), expected, "{name}");
        }
    }

    #[test]
    fn no_alias_of_a_tool_stands_for_two() {
        let mut all: Vec<&str> = TOOLS
            .iter()
            .flat_map(|(_, aliases)| aliases.iter().copied())
            .collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(all.iter().all(|alias| folded(alias) == *alias));
    }

    #[test]
    fn the_distance_counts_letters_without_regard_to_case() {
        for (a, b, is) in [
            ("", "", 0),
            ("a", "", 1),
            ("mian.rs", "main.rs", 2),
            ("Main.rs", "main.rs", 0),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), is, "{a} {b}");
        }
    }
}
