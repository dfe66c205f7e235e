//! Pictures and documents: which of them a model takes, and the most tokens that one can count for.
//!
//! The budget holds these figures before a call, so each is the worst case that the provider documents. Sources, as of
//! 2026-11-22: Anthropic "Images and vision", "PDF support" and "What's new in Claude Opus 4.7"; OpenAI "Images and
//! vision" (developers.openai.com/api/docs/guides/images-vision); Google "Media resolution" and "Image understanding"
//! (ai.google.dev/gemini-api/docs).

mod pdf;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sortie_agent::Media;
use sortie_api::model::ModelInfo;

/// Tokens of the text of one page of a document. Anthropic: typically 1,500 to 3,000.
const PAGE_TEXT: u64 = 3_000;
/// Pages of a document whose pages cannot be read: as many as providers with small windows take.
const UNKNOWN_PAGES: u64 = 100;
/// Most pages that a provider takes.
const MOST_PAGES: u64 = 1_000;
/// Tokens around a picture or a document: its frame, its label's heading.
const FRAME: u64 = 16;

/// Kind of media, as a provider takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Picture,
    Document,
}

/// Kind of this file, where the model takes it; `None` where it is told of it by its label alone.
pub(crate) fn taken(info: &ModelInfo, media: &Media) -> Option<Kind> {
    let (kind, needed) = if media.media_type.starts_with("image/") {
        (Kind::Picture, "vision")
    } else if media.media_type == "application/pdf" {
        (Kind::Document, "documents")
    } else {
        return None;
    };
    info.capabilities.iter().any(|can| can == needed).then_some(kind)
}

/// The content as the address that OpenAI's protocols take.
pub(crate) fn data_url(media: &Media) -> String {
    format!("data:{};base64,{}", media.media_type, media.data)
}

/// The way in which a provider counts pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// Claude: one token a patch of 28 pixels, up to 4,784 (since 4.7) or about 1,600.
    Claude { sharp: bool },
    /// `OpenAI` with `detail` `high`: patches of 32 pixels, up to 2,500, times a factor. It is 1.2 in the line of GPT-6 and
    /// at most 2.46 before; models before that count at most eight tiles of 170 tokens and 85 more.
    Openai { since_6: bool },
    /// Gemini: up to 2,240 since version 3; before, 258 for each tile of 256 to 768 pixels.
    Gemini { since_3: bool },
    /// A server of unknown models: one token a patch of 14 pixels, up to 16,384.
    Unknown,
}

impl Counting {
    /// The most tokens of this piece of media, which is of this kind.
    pub(crate) fn most_tokens(self, kind: Kind, media: &Media) -> u64 {
        let page = self.largest_picture();
        FRAME
            + match kind {
                Kind::Picture => media.pixels.map_or(page, |pixels| self.picture(pixels)),
                Kind::Document => pages(&media.data).unwrap_or(UNKNOWN_PAGES) * (page + PAGE_TEXT),
            }
    }

    fn largest_picture(self) -> u64 {
        match self {
            Self::Claude { sharp: true } => 4_784,
            Self::Claude { sharp: false } => 1_600,
            Self::Openai { since_6 } => openai(2_500, since_6),
            Self::Gemini { since_3: true } => 2_240,
            // A page is scaled to at most 3,072 pixels: sixteen tiles.
            Self::Gemini { since_3: false } => 16 * 258,
            Self::Unknown => 16_384,
        }
    }

    fn picture(self, (width, height): (u32, u32)) -> u64 {
        let patches = |size: u32| u64::from(width.div_ceil(size)) * u64::from(height.div_ceil(size));
        let counted = match self {
            Self::Claude { .. } => patches(28),
            Self::Openai { since_6 } => openai(patches(32), since_6),
            Self::Gemini { since_3: true } => 2_240,
            Self::Gemini { since_3: false } => {
                // Two thirds of the shorter edge, within bounds.
                let tile = (width.min(height) / 3 * 2).clamp(256, 768);
                return 258 * patches(tile).max(1);
            }
            Self::Unknown => patches(14),
        };
        counted.min(self.largest_picture())
    }
}

fn openai(patches: u64, since_6: bool) -> u64 {
    if since_6 {
        patches.saturating_mul(120).div_ceil(100)
    } else {
        patches.saturating_mul(246).div_ceil(100).max(85 + 8 * 170)
    }
}

/// The pages of a PDF; `None` where they cannot be read.
fn pages(base64: &str) -> Option<u64> {
    let pdf = STANDARD.decode(base64).ok()?;
    Some(pdf::pages(&pdf)?.min(MOST_PAGES))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_server::{chart, report};

    fn picture(width: u32, height: u32) -> Media {
        Media {
            pixels: Some((width, height)),
            ..chart()
        }
    }

    fn document(content: &[u8]) -> Media {
        Media {
            data: STANDARD.encode(content),
            ..report()
        }
    }

    const ALL: [Counting; 7] = [
        Counting::Claude { sharp: true },
        Counting::Claude { sharp: false },
        Counting::Openai { since_6: true },
        Counting::Openai { since_6: false },
        Counting::Gemini { since_3: true },
        Counting::Gemini { since_3: false },
        Counting::Unknown,
    ];

    #[test]
    fn a_picture_counts_at_most_what_its_provider_documents() {
        for (pixels, expected) in [
            ((200, 200), [64, 64, 59, 1_445, 2_240, 258, 225]),
            ((1_000, 1_000), [1_296, 1_296, 1_229, 2_520, 2_240, 1_032, 5_184]),
            (
                (8_000, 8_000),
                [4_784, 1_600, 3_000, 6_150, 2_240, 31_218, 16_384],
            ),
        ] {
            let counted =
                ALL.map(|counting| counting.most_tokens(Kind::Picture, &picture(pixels.0, pixels.1)) - FRAME);
            assert_eq!(counted, expected, "{pixels:?}");
        }
        let unknown = Media {
            pixels: None,
            ..picture(0, 0)
        };
        let counting = Counting::Claude { sharp: true };
        assert_eq!(counting.most_tokens(Kind::Picture, &unknown) - FRAME, 4_784);
    }

    #[test]
    fn a_document_counts_each_page_as_text_and_picture() {
        let counting = Counting::Claude { sharp: false };
        let two = b"%PDF-1.4\n1 0 obj<</Type /Pages /Count 2>>endobj 2 0 obj<< /Type/Page >>endobj";
        let most = |content: &[u8]| counting.most_tokens(Kind::Document, &document(content)) - FRAME;
        assert_eq!(most(two), 2 * 4_600);
        assert_eq!(
            most(b"%PDF-1.4\n<</Type\n/Page/Parent 1 0 R>> <</Type /Page>>"),
            2 * 4_600
        );
        assert_eq!(most(b"%PDF-1.7\n<</Type/ObjStm>>stream\n"), 100 * 4_600);
        assert_eq!(most(b"no document"), 100 * 4_600);
        assert_eq!(
            most(b"%PDF\n<</Type/Pages/Count 99999999999999999999>>"),
            MOST_PAGES * 4_600
        );
    }

    #[test]
    fn a_model_is_shown_only_what_it_takes() {
        let can = |capabilities: &[&str]| {
            let info = crate::test_server::entry("m", capabilities).info;
            let text = Media {
                media_type: "text/plain".to_owned(),
                ..picture(1, 1)
            };
            [picture(1, 1), document(b""), text].map(|media| taken(&info, &media))
        };
        assert_eq!(can(&["tools"]), [None, None, None]);
        assert_eq!(can(&["vision"]), [Some(Kind::Picture), None, None]);
        assert_eq!(can(&["documents"]), [None, Some(Kind::Document), None]);
    }

    proptest! {
        #[test]
        fn any_picture_and_any_document_has_a_bound(
            width in any::<u32>(), height in any::<u32>(), content in any::<Vec<u8>>()
        ) {
            for counting in ALL {
                prop_assert!(counting.most_tokens(Kind::Picture, &picture(width, height)) >= FRAME);
                prop_assert!(counting.most_tokens(Kind::Document, &document(&content)) > FRAME);
            }
        }
    }
}
