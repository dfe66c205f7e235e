//! Arguments of `sortie run`.

use std::path::PathBuf;

use clap::Args;
use sortie_api::{Effort, Micros};

use super::{Document, Name, NodeArgs, amount::cost, number::whole};

#[derive(Debug, Args)]
#[command(after_help = "\
The run goes to the engine at --url or SORTIE_URL, else to the engine of the
data folder when one is running, else to one that is started in this process.
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
    /// The task, or `-` for standard input; with --workflow, in place of the saved one
    #[arg(value_name = "PROMPT|-", required_unless_present = "workflow")]
    pub(crate) prompt: Option<String>,
    /// Start from this saved workflow; other options replace its fields
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<Name>,
    /// Stage a file in the working directory, as NAME where given
    #[arg(long = "file", value_name = "PATH[=NAME]")]
    pub(crate) files: Vec<FileArg>,
    /// Task data: JSON, or @FILE [default: the text piped to the command]
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) input: Option<Document>,
    /// The model [default: the engine's]
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// The model that is asked once where the first one refuses
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
    /// A tag to find the run by; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Let the agent run no commands and write no files
    #[arg(long)]
    pub(crate) no_shell: bool,
    /// JSON Schema that the answer must match: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) output_schema: Option<Document>,
    /// Print the event objects one a line, and the finished run last
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) attendance: Attendance,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// Attendance of a command to its run.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Attendance {
    /// Follow the run to its end, as is the default
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
