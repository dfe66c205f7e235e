//! Reasoning that a server requires back: collected from its pieces, kept as one opaque piece of the reply, and returned in the
//! assistant's message.
//!
//! `OpenRouter` sends `reasoning_details`, blocks of which some are signed. `DeepSeek`, Kimi and others send `reasoning_content`,
//! which can be empty, and reject a conversation with answers that lack the field. No server requires a bare `reasoning` back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};
use serde_json::value::{RawValue, to_raw_value};
use sortie_agent::model::ModelError;

use crate::{
    answer::{Failure, parse},
    wire::{Joined, Piece},
};

/// A piece of `reasoning_details`, unchanged.
pub(super) type Detail<'a> = BTreeMap<String, &'a RawValue>;

/// The reasoning of one answer.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    /// Empty if the model sent the field without content.
    content: Option<Joined>,
    details: Vec<Block>,
    /// Size of the details so far, in bytes.
    detail_bytes: usize,
    /// Text of the field `reasoning`, which is not sent back.
    bare: Joined,
}

/// A block of `reasoning_details`. Its text arrives in pieces.
#[derive(Debug)]
struct Block {
    text: Option<(&'static str, Joined)>,
    rest: BTreeMap<String, Box<RawValue>>,
}

/// Reasoning in an assistant's message.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Returned<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<&'a RawValue>,
}

impl<'a> Returned<'a> {
    /// Reads the output of [`Reasoning::into_opaque`].
    pub(super) fn of(opaque: &'a RawValue) -> Result<Self, ModelError> {
        serde_json::from_str(opaque.get())
            .map_err(|error| ModelError::fatal(format!("the conversation holds foreign reasoning: {error}")))
    }

    /// Whether there is a `reasoning_content`.
    pub(super) fn has_content(&self) -> bool {
        self.reasoning_content.is_some()
    }

    /// Adds an empty `reasoning_content` if there is none.
    pub(super) fn add_content(&mut self) {
        if self.reasoning_content.is_none() {
            self.reasoning_content = serde_json::from_str("\"\"").ok();
        }
    }
}

impl Reasoning {
    pub(super) fn take_content(&mut self, piece: &Piece<'_>) {
        self.content.get_or_insert_default().push(piece);
    }

    pub(super) fn take_bare(&mut self, piece: &Piece<'_>) {
        self.bare.push(piece);
    }

    /// Adds `reasoning_details`.
    pub(super) fn take_details(&mut self, details: Vec<Detail<'_>>) -> Result<(), Failure> {
        details
            .into_iter()
            .try_for_each(|detail| self.take_detail(detail))
    }

    /// Adds a piece. A piece of text continues the previous block if both have the same type and index. Otherwise it starts a new
    /// block.
    fn take_detail(&mut self, mut piece: Detail<'_>) -> Result<(), Failure> {
        let field = ["text", "summary"]
            .into_iter()
            .find(|field| piece.contains_key(*field));
        let raw = field.and_then(|field| piece.remove(field));
        let text = raw.map(|raw| parse::<Piece<'_>>(raw.get())).transpose()?;
        if let (Some(last), Some(text)) = (self.details.last_mut(), &text)
            && let Some((_, whole)) = last.text.as_mut().filter(|(name, _)| Some(*name) == field)
            && ["type", "index"].iter().all(|name| {
                last.rest.get(*name).map(|raw| raw.get()) == piece.get(*name).map(|raw| raw.get())
            })
        {
            self.detail_bytes += whole.push(text).len();
            // A signature arrives at the end, with fields of earlier pieces as null. Those must not overwrite the earlier values.
            piece.retain(|_, raw| raw.get() != "null");
            last.rest
                .extend(piece.into_iter().map(|(name, raw)| (name, raw.to_owned())));
            return Ok(());
        }
        let rest: usize = piece.values().map(|raw| raw.get().len()).sum();
        let text = text.map(|text| {
            let mut whole = Joined::default();
            whole.push(&text);
            whole
        });
        self.detail_bytes += rest + text.as_ref().map_or(0, |text| text.as_str().len());
        self.details.push(Block {
            text: field.zip(text),
            rest: piece
                .into_iter()
                .map(|(name, raw)| (name, raw.to_owned()))
                .collect(),
        });
        Ok(())
    }

    /// Number of bytes that the model has written.
    pub(super) fn bytes(&self) -> usize {
        // The bare text repeats the details.
        let content = self.content.as_ref().map_or("", Joined::as_str);
        content.len() + self.bare.as_str().len().max(self.detail_bytes)
    }

    /// Returns the readable text. Servers send the same text in up to three fields.
    pub(super) fn readable(&self) -> String {
        let details = || {
            let texts = self.details.iter().filter_map(|block| block.text.as_ref());
            texts.map(|(_, text)| text.as_str()).collect::<String>()
        };
        let texts = self.content.iter().chain([&self.bare]).map(Joined::as_str);
        let text = texts.into_iter().find(|text| !text.is_empty());
        text.map_or_else(details, str::to_owned).trim().to_owned()
    }

    /// Returns the piece to send back, if any.
    pub(super) fn into_opaque(self) -> Option<Result<Box<RawValue>, Failure>> {
        #[derive(Serialize)]
        struct Opaque<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            reasoning_content: Option<&'a str>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            reasoning_details: &'a [Block],
        }
        let content = self.content.map(Joined::into_text);
        if content.is_none() && self.details.is_empty() {
            return None;
        }
        let opaque = Opaque {
            // Servers that send details do not need the text in addition.
            reasoning_content: content.as_deref().filter(|_| self.details.is_empty()),
            reasoning_details: &self.details,
        };
        Some(to_raw_value(&opaque).map_err(Failure::unreadable))
    }
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some((field, text)) = &self.text {
            map.serialize_entry(field, &text.clone().into_text())?;
        }
        for (name, raw) in &self.rest {
            map.serialize_entry(name, raw)?;
        }
        map.end()
    }
}
