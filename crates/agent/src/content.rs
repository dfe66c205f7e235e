//! Results of tools: text, a command in its parts, or a picture or document, each bounded in bytes.
//!
//! A command's output is kept once, in parts: the model reads it as one text, the offline model reads its standard
//! output alone.

mod binary;
mod command;
mod plain;
mod repeats;
mod stream;
mod utf16;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use self::command::CommandOutput;
pub(crate) use self::{
    command::ended,
    stream::{Extent, Kept, View, stream_text},
};
use crate::{Redactor, text};

/// Maximum length of the line that reports an omission, in bytes.
const LINE_BYTES: usize = 256;

/// Output of a tool call, for the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolContent {
    /// Text, already bounded.
    Text(String),
    /// A command that has ended or timed out.
    Command(CommandOutput),
    /// A picture or a document, for a model that takes it.
    Media(Media),
    /// Text, already bounded, with pictures and documents for a model that takes them.
    TextWithMedia {
        /// The text, with the label of each.
        text: String,
        /// The pictures and documents, in their order in the text.
        media: Vec<Media>,
    },
    /// Dropped from the transcript to bound its memory.
    Dropped {
        /// Size of the output, in bytes.
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
    /// The accompanying text: the path, and the size of the content (pixels or pages, bytes).
    pub label: String,
    /// Width and height of a picture, in pixels; `None` for a document.
    pub pixels: Option<(u32, u32)>,
    /// Maximum number of tokens that it counts for with the run's model ([`Model::media_tokens`](crate::Model::media_tokens)).
    pub tokens: u64,
}

impl Media {
    fn held_bytes(&self) -> usize {
        self.data.len() + self.label.len()
    }
}

impl ToolContent {
    /// Text with pictures and documents, if there are any.
    pub(crate) fn with_media(text: String, media: Vec<Media>) -> Self {
        if media.is_empty() {
            Self::Text(text)
        } else {
            Self::TextWithMedia { text, media }
        }
    }

    /// Returns the text that the model reads.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) | Self::TextWithMedia { text, .. } => Cow::Borrowed(text),
            Self::Command(command) => Cow::Owned(command.text()),
            Self::Media(media) => Cow::Borrowed(&media.label),
            Self::Dropped { bytes } => Cow::Owned(format!("[an old output of {bytes} bytes was dropped]")),
        }
    }

    /// Returns the pictures and documents that a model which takes them is shown.
    pub fn media(&self) -> &[Media] {
        match self {
            Self::Media(media) => std::slice::from_ref(media),
            Self::TextWithMedia { media, .. } => media,
            Self::Text(_) | Self::Command(_) | Self::Dropped { .. } => &[],
        }
    }

    /// Redacts the content, and then cuts each of its texts to `limit` bytes: cutting first could split a credential.
    pub(crate) fn shown(self, redactor: &Redactor, limit: usize) -> Self {
        let shown = |text: String, limit| text::bounded_owned(redactor.redact_owned(text), limit);
        // A stream was cut before, and has a line that reports it.
        let of_stream = limit.saturating_add(LINE_BYTES);
        match self {
            Self::Text(text) => Self::Text(shown(text, limit)),
            Self::Command(command) => Self::Command(CommandOutput {
                stdout: shown(command.stdout, of_stream),
                stderr: shown(command.stderr, of_stream),
                notes: command
                    .notes
                    .into_iter()
                    .map(|note| shown(note, LINE_BYTES))
                    .collect(),
                ..command
            }),
            Self::Media(media) => Self::Media(Media {
                label: shown(media.label, limit),
                ..media
            }),
            Self::TextWithMedia { text, media } => Self::TextWithMedia {
                text: shown(text, limit),
                media: media
                    .into_iter()
                    .map(|media| Media {
                        label: shown(media.label, limit),
                        ..media
                    })
                    .collect(),
            },
            Self::Dropped { bytes } => Self::Dropped { bytes },
        }
    }

    /// Returns the memory that the output occupies, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Command(command) => command.held_bytes(),
            Self::Media(media) => media.held_bytes(),
            Self::TextWithMedia { text, media } => {
                text.len() + media.iter().map(Media::held_bytes).sum::<usize>()
            }
            Self::Dropped { .. } => 0,
        }
    }
}
