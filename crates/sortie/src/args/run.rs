//! Arguments of `sortie run`.

use std::path::PathBuf;

use clap::Args;
use sortie_api::{Effort, Micros, limits::IDEMPOTENCY_KEY_CHARS};

use super::{
    CallbackArgs, Document, Name, NodeArgs,
    amount::cost,
    number::{up_to_a_hundred, whole},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sortie run 'Which region sold most?' --file sales.csv
  git log -20 | sortie run 'Write release notes from the input.'
  sortie run @task.md --web --connection crm --max-cost '$0.50'
  sortie run 'Extract the total.' --each 'invoices/*.txt' --json

The run goes to the engine at --url, --context, SORTIE_URL or SORTIE_CONTEXT,
else to the current context of `sortie login`, else to the engine of the data
folder, else to one that is started in this process.
The answer goes to standard output, everything else to standard error.
Ctrl-C, SIGTERM and the end of the terminal (SIGHUP) cancel the run; a second
one leaves at once. While the engine does not answer, it is tried again for
five minutes.

Exit codes:
  0  the run succeeded             64  wrong command line or request
  1  the run failed                69  the engine is not available
  3  the run was cancelled         70  other failure
  4  the run timed out             77  the API key is refused
  5  the run was interrupted       78  wrong configuration
                                   79  the credits do not cover it
                                   80  the API key may not do this
                                  130  left by a second Ctrl-C")]
pub(crate) struct RunArgs {
    /// The task; @FILE reads it from a file, `-` from standard input. Replaces the saved prompt of --workflow
    #[arg(
        value_name = "PROMPT|@FILE|-",
        required_unless_present_any = ["literal", "workflow", "request", "each", "continued"]
    )]
    pub(crate) prompt: Option<String>,
    /// The task after `--`, also if it is the name of a command
    #[arg(last = true, hide = true, conflicts_with = "prompt", value_name = "PROMPT")]
    pub(crate) literal: Option<String>,
    /// Start from this saved workflow; other options replace its fields
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<Name>,
    /// Read the run request from a JSON, YAML or TOML file, or as JSON from standard input; other options replace its fields
    #[arg(long, value_name = "FILE|-")]
    pub(crate) request: Option<PathBuf>,
    /// Stage a file in the working directory, as NAME if given; may be given several times
    #[arg(long = "file", value_name = "PATH[=NAME]")]
    pub(crate) files: Vec<FileArg>,
    /// Task data: JSON, or @FILE [default: the text piped to the command]
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) input: Option<Document>,
    /// JSON Schema that the input must match: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) input_schema: Option<Document>,
    /// JSON Schema that the answer must match: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) output_schema: Option<Document>,
    /// Description of the agent and its way of working, in addition to the task
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(crate) instructions: Option<Document>,
    /// The model [default: the engine's]
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// The model that is called once if the first one refuses
    #[arg(long, value_name = "MODEL")]
    pub(crate) fallback_model: Option<String>,
    /// Effort of the model's thinking: minimal, low, medium, high, xhigh or max [default: the model's]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) effort: Option<Effort>,
    /// Time limit in seconds, 1 to 3600 [default: 300]
    #[arg(long, value_name = "SECONDS", value_parser = whole::<i64>)]
    pub(crate) timeout: Option<i64>,
    /// Budget, such as $0.50 or 0.5usd [default: the engine's]
    #[arg(long, value_name = "AMOUNT", value_parser = cost)]
    pub(crate) max_cost: Option<Micros>,
    /// Maximum number of model calls, 1 to 1000 [default: 200]
    #[arg(long, value_name = "STEPS", value_parser = whole::<i64>)]
    pub(crate) max_steps: Option<i64>,
    #[command(flatten)]
    pub(crate) web: WebArgs,
    /// Let the agent use this saved connection; may be given several times
    #[arg(long = "connection", value_name = "NAME")]
    pub(crate) connections: Vec<Name>,
    /// Let the agent run no commands and write no files
    #[arg(long)]
    pub(crate) no_shell: bool,
    /// Store nothing of the run's content
    #[arg(long)]
    pub(crate) zero_data_retention: bool,
    /// Purpose of the run, for people; at most 500 characters
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// A tag to find the run by; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// A label of the run; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) metadata: Vec<Label>,
    #[command(flatten)]
    pub(crate) callback: CallbackArgs,
    /// If a run already has this key, follow that run instead of starting another one
    #[arg(long, value_name = "KEY", value_parser = idempotency_key, conflicts_with = "each")]
    pub(crate) idempotency_key: Option<String>,
    #[command(flatten)]
    pub(crate) batch: BatchArgs,
    /// Reserved: a run cannot continue an earlier one yet
    #[arg(long = "continue", value_name = "RUN", num_args = 0..=1, default_missing_value = "", hide = true)]
    pub(crate) continued: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) attendance: Attendance,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// Access to the web.
#[derive(Debug, Args)]
pub(crate) struct WebArgs {
    /// Let the agent fetch web pages and search
    #[arg(long)]
    pub(crate) web: bool,
    /// Let the agent use the web, but only this domain and its subdomains; may be given several times
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) web_allow: Vec<String>,
}

/// Output of `sortie run`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print the event objects one a line, and the finished run last
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the answer, and only errors on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Runs of one definition with different files.
#[derive(Debug, Args)]
pub(crate) struct BatchArgs {
    /// Start one run for each of these files, staged under its name; quoted patterns such as 'docs/*.txt' are expanded
    #[arg(long, value_name = "FILES", num_args = 1..)]
    pub(crate) each: Vec<String>,
    /// Number of runs of --each in progress at once, 1 to 100
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = up_to_a_hundred, requires = "each")]
    pub(crate) jobs: u32,
}

/// Attendance of a command to its run.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Attendance {
    /// Follow the run to its end; this is the default
    #[arg(long, overrides_with = "detach")]
    pub(crate) follow: bool,
    /// Print the run's ID and exit; needs a running engine
    #[arg(long, overrides_with = "follow")]
    pub(crate) detach: bool,
}

/// `PATH[=NAME]`: a file of this machine and its place in the working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileArg {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
}

impl std::str::FromStr for FileArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, name) = match text.rsplit_once('=') {
            Some((path, name)) => (path, name),
            None => (text, text.rsplit('/').next().unwrap_or_default()),
        };
        if path.is_empty() {
            return Err("the path must not be empty".to_owned());
        }
        if name.is_empty() || name == "." || name == ".." {
            return Err("give the file a name in the working directory: PATH=NAME".to_owned());
        }
        Ok(Self {
            path: PathBuf::from(path),
            name: name.to_owned(),
        })
    }
}

/// `KEY=VALUE`: a label of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl std::str::FromStr for Label {
    type Err = &'static str;

    /// The value may contain `=`, and may be empty. The engine checks the lengths.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self {
                key: key.to_owned(),
                value: value.to_owned(),
            }),
            _ => Err("must be KEY=VALUE, such as team=sales"),
        }
    }
}

/// Checks that a key can be sent in a header.
fn idempotency_key(text: &str) -> Result<String, String> {
    let length = text.chars().count();
    if !(1..=IDEMPOTENCY_KEY_CHARS).contains(&length) || text.chars().any(char::is_control) {
        return Err(format!(
            "must be 1 to {IDEMPOTENCY_KEY_CHARS} characters, without control characters"
        ));
    }
    Ok(text.to_owned())
}
