//! Pictures in requests: encoded, of an accepted media type that matches their bytes, and not too large.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Media types that Anthropic and `OpenAI` accept.
///
/// Sources: platform.claude.com/docs, "Vision"; developers.openai.com/api/docs, "Images and vision".
const COMMON: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
/// Media types that Gemini accepts. Source: ai.google.dev/gemini-api/docs, "Image understanding".
const GEMINI: [&str; 5] = [
    "image/jpeg",
    "image/png",
    "image/webp",
    "image/heic",
    "image/heif",
];
/// Maximum size of the base64 of a picture for Anthropic, which counts the encoded bytes.
///
/// Sources: lobehub/lobehub#14711, ai-ecoverse/slicc#117.
const ANTHROPIC_BYTES: usize = 5 << 20;
/// Maximum size of all encoded pictures of a request for `OpenAI` and Gemini, in bytes.
///
/// Sources: developers.openai.com/api/docs, "Images and vision" (50 MB); ai.google.dev/gemini-api/docs, "Image
/// understanding" (20 MB for a whole request). The smaller one counts here.
const OTHER_BYTES: usize = 20 << 20;

/// Checks a picture for Anthropic. `place` is the place of its source.
pub(super) fn anthropic(place: &str, media_type: &str, data: &str) -> Result<(), String> {
    if !COMMON.contains(&media_type) {
        return Err(format!(
            "{place}.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
        ));
    }
    if data.len() > ANTHROPIC_BYTES {
        return Err(format!(
            "{place}.base64: image exceeds 5 MB maximum: {} bytes > {ANTHROPIC_BYTES} bytes",
            data.len()
        ));
    }
    // Source: anthropics/claude-code#15746 and qwenlm/qwen-code#10834.
    match appears_to_be(data) {
        None => Err(format!("{place}.base64: invalid base64 data")),
        Some(found) if found == media_type => Ok(()),
        Some("") => Err("Could not process image".to_owned()),
        Some(_) => Err(format!(
            "{place}.base64.data: Image does not match the provided media type {media_type}"
        )),
    }
}

/// Checks a picture for `OpenAI`, which comes as a data URL.
pub(super) fn openai(place: &str, url: &str) -> Result<(), String> {
    let invalid = |why: &str| {
        Err(format!(
            "Invalid '{place}'. Expected a base64-encoded data URL with an image MIME type (e.g. \
             'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got {why}."
        ))
    };
    let Some((media_type, data)) = url
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"))
    else {
        return invalid("a value without the 'data:' prefix");
    };
    if !COMMON.contains(&media_type) {
        return invalid(&format!("unsupported MIME type '{media_type}'"));
    }
    taken(media_type, data).or_else(invalid)
}

/// Checks a picture for Gemini.
pub(super) fn gemini(place: &str, media_type: &str, data: &str) -> Result<(), String> {
    if !GEMINI.contains(&media_type) {
        return Err(format!("Unsupported MIME type: {media_type}"));
    }
    taken(media_type, data).map_err(|why| format!("Unable to process input image ({place}): it is {why}."))
}

fn taken(media_type: &str, data: &str) -> Result<(), &'static str> {
    if data.len() > OTHER_BYTES {
        return Err("a picture that is too large");
    }
    match appears_to_be(data) {
        Some(found) if found == media_type => Ok(()),
        None => Err("text that is not base64"),
        Some(_) => Err("a picture of another type"),
    }
}

/// The media type that the first bytes of base64 belong to; empty if unknown, `None` if the text is not base64.
fn appears_to_be(data: &str) -> Option<&'static str> {
    let bytes = STANDARD.decode(data).ok()?;
    Some(match bytes.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        [_, _, _, _, b'f', b't', b'y', b'p', b'h', b'e', b'i', b'c', ..] => "image/heic",
        [_, _, _, _, b'f', b't', b'y', b'p', b'm', b'i', b'f', b'1', ..] => "image/heif",
        _ => "",
    })
}
