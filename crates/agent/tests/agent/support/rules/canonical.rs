//! A request as the bytes that a provider reads, in their order, and the signatures of thinking blocks over them.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::value::RawValue;
use sortie_agent::{
    Media,
    model::{Content, Request, ToolResult, Turn},
};

/// The place of a signature that the model has not made yet.
const UNSIGNED: &str = r#""signature":"""#;

pub(super) struct Canonical {
    /// The whole request.
    pub(super) bytes: Vec<u8>,
    /// Everything but thinking, so far.
    prefix: DefaultHasher,
    /// The thinking blocks, in order: position, text, and the hash of the request before each.
    blocks: Vec<Block>,
}

struct Block {
    place: String,
    raw: String,
    before: u64,
}

impl Canonical {
    pub(super) fn of(request: &Request<'_>) -> Self {
        let mut canonical = Self {
            bytes: Vec::new(),
            prefix: DefaultHasher::new(),
            blocks: Vec::new(),
        };
        for tool in request.tools {
            canonical.plain(tool.name);
            canonical.plain(tool.description);
            canonical.plain(tool.parameters);
        }
        canonical.plain(request.system);
        canonical.plain(&request.task.first_message());
        for media in request.task.media {
            canonical.media(media);
        }
        for (index, turn) in request.transcript.iter().enumerate() {
            match turn {
                Turn::Assistant(pieces) => {
                    for (piece, content) in pieces.iter().enumerate() {
                        canonical.piece(content, || format!("messages.{}.content.{piece}", index + 1));
                    }
                }
                Turn::ToolResults(results) => results.iter().for_each(|result| canonical.result(result)),
                Turn::User(text) => canonical.plain(text),
            }
        }
        canonical
    }

    fn plain(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(b'\n');
        text.hash(&mut self.prefix);
    }

    fn media(&mut self, media: &Media) {
        self.plain(&media.label);
        // A provider counts a picture by its size, which the model reports, and not by its bytes.
        media.data.hash(&mut self.prefix);
    }

    fn result(&mut self, result: &ToolResult) {
        self.plain(&result.id);
        self.plain(if result.is_error { "error" } else { "result" });
        self.plain(&result.text());
        for media in result.content.media() {
            media.data.hash(&mut self.prefix);
        }
    }

    fn piece(&mut self, content: &Content, place: impl FnOnce() -> String) {
        match content {
            Content::Text(text) if text.trim().is_empty() => {}
            Content::Text(text) => self.plain(text),
            Content::ToolCall(call) => {
                self.plain(&call.id);
                self.plain(&call.name);
                self.plain(&call.arguments);
            }
            Content::Opaque(raw) => {
                self.bytes.extend_from_slice(raw.get().as_bytes());
                self.blocks.push(Block {
                    place: place(),
                    raw: raw.get().to_owned(),
                    before: self.prefix.finish(),
                });
            }
        }
    }

    /// The position of the first thinking block that `model` has written in another conversation.
    pub(super) fn unbound(&self, model: &str) -> Option<&str> {
        let mut last = None;
        for block in &self.blocks {
            let Some(signature) = Signature::of(&block.raw).filter(|signature| signature.model == model)
            else {
                // The thinking of another model is dropped silently.
                continue;
            };
            // The oldest blocks may be gone, but none between two others.
            let follows = last.is_none() || last == signature.behind;
            if signature.before != block.before || !follows {
                return Some(&block.place);
            }
            last = Some(hash(&block.raw));
        }
        None
    }

    /// Puts signatures over this request, and over what comes before in the reply, into the thinking of the reply.
    pub(super) fn sign(mut self, model: &str, content: &mut [Content]) {
        let own = |block: &&Block| Signature::of(&block.raw).is_some_and(|it| it.model == model);
        let mut behind = self.blocks.iter().rev().find(own).map(|block| hash(&block.raw));
        for piece in content {
            if let Content::Opaque(raw) = piece
                && raw.get().contains(UNSIGNED)
            {
                let behind_text = behind.map_or_else(String::new, |hash| format!("{hash:x}"));
                let signature = format!(
                    r#""signature":"{model}/{:x}/{behind_text}""#,
                    self.prefix.finish()
                );
                let signed = raw.get().replacen(UNSIGNED, &signature, 1);
                behind = Some(hash(&signed));
                *raw = RawValue::from_string(signed).unwrap();
            }
            self.piece(piece, String::new);
        }
    }
}

/// The content of a signature: the model, the hash of the request before the block, and that of the block before.
struct Signature {
    model: String,
    before: u64,
    behind: Option<u64>,
}

impl Signature {
    fn of(raw: &str) -> Option<Self> {
        let (_, behind) = raw.split_once(r#""signature":""#)?;
        let (signature, _) = behind.split_once('"')?;
        let mut parts = signature.rsplitn(3, '/');
        let behind = parts.next()?;
        let before = u64::from_str_radix(parts.next()?, 16).ok()?;
        Some(Self {
            model: parts.next()?.to_owned(),
            before,
            behind: u64::from_str_radix(behind, 16).ok(),
        })
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Bytes that a piece of a reply was written in.
pub(super) fn written(content: &Content) -> usize {
    match content {
        Content::Text(text) => text.len(),
        Content::ToolCall(call) => call.id.len() + call.name.len() + call.arguments.len(),
        Content::Opaque(raw) => raw.get().len(),
    }
}

/// The pictures and documents of a request.
pub(super) fn media<'r>(request: &'r Request<'_>) -> impl Iterator<Item = &'r Media> {
    let results = request.transcript.iter().flat_map(|turn| match turn {
        Turn::ToolResults(results) => results.as_slice(),
        Turn::Assistant(_) | Turn::User(_) => &[],
    });
    let of_results = results.flat_map(|result| result.content.media());
    request.task.media.iter().chain(of_results)
}
