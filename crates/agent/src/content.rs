//! What tools give back: text, or a finished command in its parts, each bounded in bytes with head and tail kept.
//!
//! A command's output is kept once, in parts: the model reads it as one text, the offline model reads its standard
//! output alone.

use std::{borrow::Cow, fmt::Write as _, time::Duration};

use serde::{Deserialize, Serialize};
use sortie_sandbox::{ExitKind, StreamOutput};

use crate::{Redactor, text};

/// More than the line takes that says how much was left out, in bytes.
const LINE_BYTES: usize = 128;

/// What the model is told of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolContent {
    /// Text, already bounded.
    Text(String),
    /// A command that has ended.
    Command(CommandOutput),
    /// A picture or a document, for a model that takes it.
    Media(Media),
    /// Dropped from the transcript to bound its memory.
    Dropped {
        /// How much it was, in bytes.
        bytes: usize,
    },
}

/// A picture or a document as providers take it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// The media type, such as `image/png` or `application/pdf`.
    pub media_type: String,
    /// The content in base64 (RFC 4648, section 4).
    pub data: String,
    /// The text beside it: the path, and what the file holds (pixels or pages, bytes).
    pub label: String,
    /// Width and height of a picture, in pixels; `None` for a document.
    pub pixels: Option<(u32, u32)>,
    /// The most tokens that it counts for with the run's model ([`Model::media_tokens`](crate::Model::media_tokens)).
    #[serde(default)]
    pub tokens: u64,
}

impl ToolContent {
    /// What the model reads.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Command(command) => Cow::Owned(command.text()),
            Self::Media(media) => Cow::Borrowed(&media.label),
            Self::Dropped { bytes } => Cow::Owned(format!("[an old output of {bytes} bytes was dropped]")),
        }
    }

    /// Without credentials, then each of its texts cut to `limit` bytes: a cut could tear a credential.
    pub(crate) fn shown(self, redactor: &Redactor, limit: usize) -> Self {
        let shown = |text: String, limit| text::bounded_owned(redactor.redact_owned(text), limit);
        // A stream was cut before, and says so in a line.
        let of_stream = limit.saturating_add(LINE_BYTES);
        match self {
            Self::Text(text) => Self::Text(shown(text, limit)),
            Self::Command(command) => Self::Command(CommandOutput {
                stdout: shown(command.stdout, of_stream),
                stderr: shown(command.stderr, of_stream),
                ..command
            }),
            Self::Media(media) => Self::Media(Media {
                label: shown(media.label, limit),
                ..media
            }),
            Self::Dropped { bytes } => Self::Dropped { bytes },
        }
    }

    /// How much memory it holds, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Command(command) => command.stdout.len() + command.stderr.len(),
            Self::Media(media) => media.data.len() + media.label.len(),
            Self::Dropped { .. } => 0,
        }
    }
}

/// A finished command. The streams are valid UTF-8 without U+0000, with a line in place of what was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutput {
    /// How it ended.
    #[serde(with = "StoredExit")]
    pub exit: ExitKind,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The time it was given.
    pub timeout: Duration,
}

/// The stored form of how a command ended.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ExitKind", rename_all = "snake_case")]
enum StoredExit {
    Code(i32),
    Signal(i32),
    TimedOut,
    Memory,
    Disk,
}

impl CommandOutput {
    /// True when it exited with status 0.
    pub fn succeeded(&self) -> bool {
        self.exit == ExitKind::Code(0)
    }

    /// How it ended, as the end of a sentence: `exited with status 1`.
    pub fn how(&self) -> String {
        match self.exit {
            ExitKind::Code(code) => format!("exited with status {code}"),
            ExitKind::Signal(signal) => format!("was ended by signal {signal}"),
            ExitKind::TimedOut => format!("was stopped after {} s", self.timeout.as_secs_f64()),
            ExitKind::Memory => "was stopped: the run's memory limit is reached".to_owned(),
            ExitKind::Disk => "was stopped: the run's disk limit is reached".to_owned(),
        }
    }

    fn text(&self) -> String {
        let mut out = String::with_capacity(self.stdout.len() + self.stderr.len() + 64);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "[the command {}]", self.how());
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if stream.is_empty() {
                continue;
            }
            let _ = writeln!(out, "[{name}]");
            out.push_str(stream);
            if !stream.ends_with('\n') {
                out.push('\n');
            }
        }
        out
    }
}

/// One stream of a command as text; a line says how much was left out of its middle.
pub(crate) fn stream_text(stream: StreamOutput) -> String {
    let StreamOutput {
        mut head,
        tail,
        total_bytes,
    } = stream;
    let kept = (head.len() + tail.len()) as u64;
    if total_bytes <= kept {
        head.extend_from_slice(&tail);
        return text::clean_bytes(head);
    }
    let mut out = text::clean_bytes(head);
    out.push_str(&text::left_out(total_bytes - kept));
    out.push_str(&text::clean_bytes(tail));
    out
}
