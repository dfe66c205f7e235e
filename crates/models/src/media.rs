//! Pictures and documents: support by models, and maximum token counts.
//!
//! The budget reserves these counts before a call, so each is the worst case that the provider documents. Sources, as of
//! 2026-11-22: Anthropic "Images and vision", "PDF support" and "What's new in Claude Opus 4.7"; OpenAI "Images and vision"
//! (developers.openai.com/api/docs/guides/images-vision); Google "Media resolution" and "Image understanding"
//! (ai.google.dev/gemini-api/docs).

mod pdf;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sortie_agent::Media;
use sortie_api::model::ModelInfo;

/// Tokens of the text on one page of a document. Anthropic: typically 1,500 to 3,000.
const PAGE_TEXT: u64 = 3_000;
/// Assumed pages of an unreadable document: the maximum of providers with small context windows.
const UNKNOWN_PAGES: u64 = 100;
/// Maximum number of pages that a provider accepts.
const MOST_PAGES: u64 = 1_000;
/// Overhead of a picture or a document, in tokens, for its framing and the heading of its label.
const FRAME: u64 = 16;

/// Media type class, as providers distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Picture,
    Document,
}

/// Returns the kind of this file if the model accepts it. `None` if the model gets only the label.
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

/// Returns the content as a data URL, which OpenAI's protocols accept.
pub(crate) fn data_url(media: &Media) -> String {
    format!("data:{};base64,{}", media.media_type, media.data)
}

/// The method by which a provider counts pictures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counting {
    /// Maximum tokens of the picture of a page, or of a picture of unknown size.
    pub(crate) largest: u64,
    /// Maximum tokens of a picture with this width and height in pixels.
    pub(crate) picture: fn(u32, u32) -> u64,
}

impl Counting {
    /// For servers with unknown models: one token per patch of 14 pixels, up to 16,384.
    pub(crate) const UNKNOWN: Self = Self {
        largest: 16_384,
        picture: |width, height| patches(width, height, 14).min(16_384),
    };

    /// Returns the maximum tokens of this file of this kind.
    pub(crate) fn most_tokens(self, kind: Kind, media: &Media) -> u64 {
        FRAME
            + match kind {
                Kind::Picture => media
                    .pixels
                    .map_or(self.largest, |(width, height)| (self.picture)(width, height)),
                Kind::Document => pages(&media.data).unwrap_or(UNKNOWN_PAGES) * (self.largest + PAGE_TEXT),
            }
    }
}

/// Returns the number of square patches with this edge, in pixels, that cover a picture.
pub(crate) fn patches(width: u32, height: u32, edge: u32) -> u64 {
    u64::from(width.div_ceil(edge)) * u64::from(height.div_ceil(edge))
}

/// Returns the number of pages of a PDF. `None` if it cannot be read.
fn pages(base64: &str) -> Option<u64> {
    let pdf = STANDARD.decode(base64).ok()?;
    Some(pdf::pages(&pdf)?.min(MOST_PAGES))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        anthropic, gemini, openai,
        test_server::{chart, report},
    };

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
        anthropic::SHARP,
        anthropic::COARSE,
        openai::SINCE_6,
        openai::BEFORE_6,
        gemini::SINCE_3,
        gemini::BEFORE_3,
        Counting::UNKNOWN,
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
        let counting = anthropic::SHARP;
        assert_eq!(counting.most_tokens(Kind::Picture, &unknown) - FRAME, 4_784);
    }

    #[test]
    fn a_document_counts_each_page_as_text_and_picture() {
        let counting = anthropic::COARSE;
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
