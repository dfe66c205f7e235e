//! Pictures and documents in the result of a tool, checked and counted like those of `read_file`.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::Context;
use crate::{
    content::{Media, ToolContent},
    media::{self, Kind},
};

/// The most pictures and documents of one result.
const PIECES: usize = 8;
/// Maximum total size of their base64, in bytes: a request must not exceed the limits of providers.
const ALL_BYTES: usize = 8 * 1024 * 1024;
/// Base64 as servers write it: with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Pictures and documents of one result that the run's model accepts.
pub struct ResultMedia<'a> {
    context: Context<'a>,
    taken: Vec<Media>,
    /// Number of pictures and documents in the result so far.
    number: usize,
}

impl<'a> ResultMedia<'a> {
    pub(super) fn new(context: Context<'a>) -> Self {
        Self {
            context,
            taken: Vec::new(),
            number: 0,
        }
    }

    /// Adds a picture or a document in base64. Returns its label for the text of the result, with the reason if the model does
    /// not get it.
    pub fn take(&mut self, base64: &str) -> String {
        self.number += 1;
        let name = format!("item {}", self.number);
        match self.checked(&name, base64) {
            Ok(media) => {
                let label = media.label.clone();
                self.taken.push(media);
                label
            }
            Err(why) => why,
        }
    }

    fn checked(&self, name: &str, base64: &str) -> Result<Media, String> {
        let bytes = decoded(base64).ok_or_else(|| format!("{name}: it is no base64, so it is not shown"))?;
        let kind = Kind::of(&bytes).filter(|kind| kind.is_whole(&bytes));
        let examined = media::examined(&bytes, name).filter(|examined| examined.is_err() || kind.is_some());
        let media = examined.unwrap_or_else(|| {
            Err(format!(
                "{name}: {} bytes that are no whole picture (PNG, JPEG, GIF, WebP) and no PDF document, so they are not \
                 shown",
                bytes.len()
            ))
        })?;
        let held: usize = self.taken.iter().map(|media| media.data.len()).sum();
        if self.taken.len() >= PIECES || held + media.data.len() > ALL_BYTES {
            return Err(format!(
                "{}; a result shows at most {PIECES} pictures, of {ALL_BYTES} bytes of base64 together",
                media.label
            ));
        }
        let tokens = self.taken.iter().map(|media| media.tokens).sum();
        let left = Context {
            media_tokens: self.context.media_tokens.saturating_sub(tokens),
            ..self.context
        };
        let plural = if kind.is_some_and(Kind::is_picture) {
            "pictures"
        } else {
            "documents"
        };
        left.counted(media, plural)
    }

    /// Returns the result with this text.
    pub fn with_text(self, text: String) -> ToolContent {
        ToolContent::with_media(text, self.taken)
    }
}

/// Decodes base64, which some servers wrap into lines or write as a `data:` URL.
fn decoded(base64: &str) -> Option<Vec<u8>> {
    let bare = match base64.split_once(";base64,") {
        Some((head, data)) if head.starts_with("data:") => data,
        Some(_) | None => base64,
    };
    let bare: Vec<u8> = bare.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64.decode(bare).ok()
}
