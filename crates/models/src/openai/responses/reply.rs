//! Assembles an answer from its events.
//!
//! A finished item replaces its pieces. Some servers omit the text or the arguments in it, or the whole item. We then use the
//! pieces.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use sortie_agent::model::{Content, Deltas, Reply, StopReason, Usage};

use crate::{
    answer::{CALLS, Decoder, Failure, Flow, parse},
    openai::{self, Counted, Figures},
    stop,
    wire::{Arguments, Count, Joined, List, Object, Piece, Text, Values},
};

use super::request::Body;

/// An event of the stream. Unknown fields are ignored.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    delta: Piece<'a>,
    #[serde(default)]
    output_index: Count,
    #[serde(borrow, default)]
    item_id: Text<'a>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    part: Object<Part<'a>>,
    #[serde(borrow, default)]
    text: Piece<'a>,
    #[serde(borrow, default)]
    arguments: Arguments<'a>,
    #[serde(borrow, default)]
    response: Object<Response<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// An item of the answer.
#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    content: List<Part<'a>>,
    #[serde(borrow, default)]
    summary: List<Part<'a>>,
    #[serde(borrow, default)]
    phase: Option<&'a RawValue>,
    #[serde(borrow, default)]
    encrypted_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    call_id: Text<'a>,
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    arguments: Arguments<'a>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Piece<'a>,
    #[serde(borrow, default)]
    refusal: Piece<'a>,
}

/// The response object of the last event, or the whole answer of a server that does not stream.
#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    object: Text<'a>,
    #[serde(borrow, default)]
    status: Text<'a>,
    #[serde(default)]
    usage: Object<Figures>,
    #[serde(borrow, default)]
    output: Values<'a>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    incomplete_details: Object<Incomplete<'a>>,
}

#[derive(Deserialize)]
struct Incomplete<'a> {
    #[serde(borrow, default)]
    reason: Text<'a>,
}

/// The part of an answer that has arrived.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    /// Request. We estimate missing usage from its size.
    body: &'a Body<'a>,
    /// Number of turns in the conversation so far.
    turn: usize,
    items: Vec<Draft>,
    /// Number of bytes that the model has written so far.
    bytes: usize,
    counted: Counted,
    stopped: Option<StopReason>,
}

/// Location of an event: the index of its item in the answer, and the item's id.
#[derive(Clone, Copy)]
struct Place<'a> {
    index: Count,
    id: &'a str,
}

/// The part of an item that has arrived.
#[derive(Debug)]
struct Draft {
    id: String,
    place: u64,
    kind: Kind,
    text: Joined,
    refusal: Joined,
    call_id: String,
    name: String,
    arguments: Joined,
    summary: Joined,
    /// Pieces of a finished item.
    pieces: Option<Vec<Content>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Message,
    Call,
    Reasoning,
    Other,
}

impl Kind {
    fn of(name: &str) -> Self {
        match name {
            "message" => Self::Message,
            "function_call" => Self::Call,
            "reasoning" => Self::Reasoning,
            _ => Self::Other,
        }
    }
}

impl Draft {
    fn new(place: u64, kind: Kind) -> Self {
        Self {
            id: String::new(),
            place,
            kind,
            text: Joined::default(),
            refusal: Joined::default(),
            call_id: String::new(),
            name: String::new(),
            arguments: Joined::default(),
            summary: Joined::default(),
            pieces: None,
        }
    }

    /// Copies the fields of an item. They replace earlier pieces.
    fn fill(&mut self, item: &Item<'_>) {
        for (own, told) in [
            (&mut self.id, &item.id),
            (&mut self.call_id, &item.call_id),
            (&mut self.name, &item.name),
        ] {
            if !told.is_empty() {
                (**told).clone_into(own);
            }
        }
        let (mut text, mut refusal, mut arguments) =
            (Joined::default(), Joined::default(), Joined::default());
        for part in &item.content.0 {
            text.push(&part.text);
            refusal.push(&part.refusal);
        }
        arguments.push(&item.arguments.0);
        self.text.replace_with(text);
        self.refusal.replace_with(refusal);
        // An empty object can mean that the server has sent the arguments only in pieces.
        if arguments.as_str().trim() != "{}" || self.arguments.as_str().is_empty() {
            self.arguments.replace_with(arguments);
        }
        let summaries = item.summary.0.iter().map(|part| part.text.clone().into_text());
        let summaries = summaries.map(|text| text.trim().to_owned());
        let summaries: Vec<String> = summaries.filter(|text| !text.is_empty()).collect();
        self.summary
            .replace_with(Joined::from(summaries.join("\n\n").as_str()));
    }

    /// Completes the item. `raw` is its JSON if the server sent the finished item.
    fn finish(&mut self, finished: Option<(&Item<'_>, &RawValue)>) -> Result<(), Failure> {
        let mut pieces = Vec::new();
        match self.kind {
            Kind::Message => {
                let text = std::mem::take(&mut self.text).into_text() + self.refusal.as_str();
                if !text.is_empty() {
                    if let Some(phase) = finished.and_then(|(item, _)| item.phase) {
                        pieces.push(Content::Opaque(phase_of(phase)?));
                    }
                    pieces.push(Content::Text(text));
                }
            }
            Kind::Call => {
                let (id, name) = (std::mem::take(&mut self.call_id), std::mem::take(&mut self.name));
                let arguments = std::mem::take(&mut self.arguments).into_text();
                pieces.extend(openai::tool_call(id, name, arguments)?.map(Content::ToolCall));
            }
            // Without its content the provider would look the item up in its storage, which is empty.
            Kind::Reasoning => {
                let sealed = finished.filter(|(item, _)| item.encrypted_content.is_some());
                pieces.extend(sealed.map(|(_, raw)| Content::Opaque(raw.to_owned())));
            }
            Kind::Other => {}
        }
        self.pieces = Some(pieces);
        Ok(())
    }
}

impl<'a> Answer<'a> {
    /// Creates the answer to `body`. Its conversation has `turn` turns.
    pub(super) fn new(body: &'a Body<'a>, turn: usize) -> Self {
        Self {
            body,
            turn,
            items: Vec::new(),
            bytes: 0,
            counted: Counted::default(),
            stopped: None,
        }
    }

    fn take_event(&mut self, data: &str, deltas: &dyn Deltas) -> Result<(), Failure> {
        let event: Event<'_> = parse(data)?;
        self.bytes += event.delta.len();
        let place = Place {
            index: event.output_index,
            id: &event.item_id,
        };
        match &*event.kind {
            "response.output_text.delta" => {
                let new = self.draft(place, Kind::Message)?.text.push(&event.delta);
                show(new, deltas);
            }
            "response.refusal.delta" => {
                let new = self.draft(place, Kind::Message)?.refusal.push(&event.delta);
                show(new, deltas);
            }
            "response.function_call_arguments.delta" => {
                self.draft(place, Kind::Call)?.arguments.push(&event.delta);
            }
            "response.reasoning_summary_text.delta" => {
                self.draft(place, Kind::Reasoning)?.summary.push(&event.delta);
            }
            "response.output_text.done" => self.add_missing(place, &event.text, deltas)?,
            "response.content_part.done" => {
                if let Some(part) = &event.part.0 {
                    self.add_missing(place, &part.text, deltas)?;
                }
            }
            "response.function_call_arguments.done" => {
                let mut told = Joined::default();
                told.push(&event.arguments.0);
                self.draft(place, Kind::Call)?.arguments.replace_with(told);
            }
            "response.output_item.added" => {
                if let Some(item) = event.item {
                    let item: Item<'_> = parse(item.get())?;
                    self.begin(place.index.get(), Kind::of(&item.kind))?.fill(&item);
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    self.take_item(place.index, item)?;
                }
            }
            kind @ ("response.completed"
            | "response.done"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.canceled") => {
                let status = kind.trim_start_matches("response.");
                self.take_response(event.response.0, status)?;
            }
            "error" => {
                // The failure is the event, or its `error`.
                let whole = parse(data)?;
                return Err(openai::failure(event.error.unwrap_or(whole)));
            }
            "" => {
                let response: Response<'_> = parse(data)?;
                if &*response.object == "response" {
                    self.take_response(Some(response), "")?;
                } else if let Some(error) = event.error {
                    return Err(openai::failure(error));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the unfinished item of this kind at this place, or the last one if the event has no place.
    fn draft(&mut self, place: Place<'_>, kind: Kind) -> Result<&mut Draft, Failure> {
        let open = |item: &Draft| item.pieces.is_none() && item.kind == kind;
        let items = self.items.iter();
        let of_id = |item: &Draft| open(item) && !place.id.is_empty() && item.id == place.id;
        let at_index = |item: &Draft| open(item) && place.index.0.is_none_or(|index| index == item.place);
        let found = items
            .clone()
            .rposition(of_id)
            .or_else(|| items.clone().rposition(at_index));
        if let Some(at) = found {
            return self.item(at);
        }
        self.begin(place.index.get(), kind)
    }

    fn begin(&mut self, place: u64, kind: Kind) -> Result<&mut Draft, Failure> {
        if self.items.len() < CALLS {
            self.items.push(Draft::new(place, kind));
        } else {
            return Err(too_many_items());
        }
        self.item(self.items.len() - 1)
    }

    fn item(&mut self, at: usize) -> Result<&mut Draft, Failure> {
        self.items.get_mut(at).ok_or_else(too_many_items)
    }

    /// Adds the whole text of a message if its pieces are missing.
    fn add_missing(
        &mut self,
        place: Place<'_>,
        text: &Piece<'_>,
        deltas: &dyn Deltas,
    ) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        let draft = self.draft(place, Kind::Message)?;
        if draft.text.as_str().is_empty() {
            let new = draft.text.push(text);
            let bytes = new.len();
            show(new, deltas);
            self.bytes += bytes;
        }
        Ok(())
    }

    fn take_item(&mut self, index: Count, raw: &RawValue) -> Result<(), Failure> {
        let item: Item<'_> = parse(raw.get())?;
        let kind = Kind::of(&item.kind);
        let open = self
            .items
            .iter()
            .filter(|item| item.pieces.is_none() && item.kind == kind);
        // Servers can use different indexes for the parts of an item and for its end.
        let index = if open.count() == 1 { Count(None) } else { index };
        let place = Place { index, id: &item.id };
        let draft = self.draft(place, kind)?;
        draft.fill(&item);
        draft.finish(Some((&item, raw)))
    }

    /// Adds items of the final response if no item of their kind has arrived. A few servers send items, or some kinds of them,
    /// only there.
    fn take_missing(&mut self, output: &Values<'_>) -> Result<(), Failure> {
        let finished = self.items.iter().filter(|item| item.pieces.is_some());
        let finished: Vec<Kind> = finished.map(|item| item.kind).collect();
        let mut taken = Vec::new();
        for (index, item) in (0..).zip(&output.0) {
            let kind = Kind::of(&parse::<Item<'_>>(item.get())?.kind);
            if !finished.contains(&kind) {
                self.take_item(Count(Some(index)), item)?;
                taken.push(kind);
            }
        }
        // The final items include the earlier pieces.
        self.items
            .retain(|item| item.pieces.is_some() || !taken.contains(&item.kind));
        Ok(())
    }

    /// Handles the end of the answer. If the response has no status, the event determines it.
    fn take_response(&mut self, response: Option<Response<'_>>, status: &str) -> Result<(), Failure> {
        let mut reason = None;
        let mut told = None;
        if let Some(response) = response {
            if let Some(figures) = response.usage.0 {
                self.counted.take(figures.into());
            }
            if let Some(error) = response.error {
                return Err(openai::failure(error));
            }
            self.take_missing(&response.output)?;
            reason = response
                .incomplete_details
                .0
                .map(|incomplete| incomplete.reason.0);
            told = Some(response.status.0).filter(|status| !status.is_empty());
        }
        let status = told.as_deref().unwrap_or(status);
        let reason = stop::reason(reason.as_deref().unwrap_or_default())?;
        self.stopped = match status {
            "failed" => Err("no reason given"),
            "cancelled" | "canceled" => Err("the response was cancelled"),
            "in_progress" | "queued" => return Ok(()),
            "incomplete" => Ok(Some(reason.unwrap_or(StopReason::MaxTokens))),
            _ => Ok(Some(reason.unwrap_or(StopReason::EndTurn))),
        }
        .map_err(|said| Failure::Reported(StatusCode::INTERNAL_SERVER_ERROR, said.to_owned()))?;
        Ok(())
    }
}

fn too_many_items() -> Failure {
    Failure::Garbled(format!("the model's answer has more than {CALLS} items"))
}

fn show(new: &str, deltas: &dyn Deltas) {
    if !new.is_empty() {
        deltas.text(new);
    }
}

impl Decoder for Answer<'_> {
    fn take(&mut self, _name: &str, data: &str, deltas: &dyn Deltas) -> Result<Flow, Failure> {
        self.take_event(data, deltas)?;
        Ok(if self.is_whole() { Flow::Done } else { Flow::On })
    }

    fn is_whole(&self) -> bool {
        self.stopped.is_some()
    }

    /// Empty if nothing has arrived. Missing counts are estimated.
    fn usage(&self) -> Usage {
        let written = self.written_bytes();
        if written == 0 && self.counted.is_empty() && !self.is_whole() {
            return Usage::default();
        }
        self.counted.usage(self.body, written)
    }

    fn written_bytes(&self) -> u64 {
        let pieces = self.items.iter().flat_map(|item| item.pieces.iter().flatten());
        let pieces = pieces.map(|piece| match piece {
            Content::Text(text) => text.len(),
            Content::ToolCall(call) => call.name.len() + call.arguments.len(),
            Content::Opaque(raw) => raw.get().len(),
        });
        self.bytes.max(pieces.sum()) as u64
    }

    fn cut(&mut self) {
        self.stopped = Some(StopReason::MaxTokens);
    }

    fn finish(mut self) -> Result<Reply, Failure> {
        let usage = self.usage();
        let Some(stopped) = self.stopped else {
            return Err(Failure::CutOff);
        };
        self.items.sort_by_key(|item| item.place);
        let (mut content, mut thinking, mut refused) = (Vec::new(), Vec::new(), false);
        let is_call = |item: &Draft| item.kind == Kind::Call;
        let has_call = self
            .items
            .iter()
            .any(|item| is_call(item) && item.pieces.is_some());
        // Pieces of a finished call that arrived under another index.
        self.items
            .retain(|item| item.pieces.is_some() || !is_call(item) || !item.name.is_empty() || !has_call);
        for mut item in self.items {
            if item.pieces.is_none() {
                item.finish(None)?;
            }
            refused |= !item.refusal.as_str().is_empty();
            content.extend(item.pieces.into_iter().flatten());
            thinking.push(item.summary.into_text());
        }
        thinking.retain(|text| !text.trim().is_empty());
        openai::tell_apart(&mut content, self.turn);
        let calls = content.iter().any(|piece| matches!(piece, Content::ToolCall(_)));
        let stop_reason = match stopped {
            StopReason::EndTurn | StopReason::ToolUse if refused => StopReason::Refusal,
            StopReason::EndTurn if calls => StopReason::ToolUse,
            reason @ (StopReason::EndTurn
            | StopReason::ToolUse
            | StopReason::MaxTokens
            | StopReason::Refusal) => reason,
        };
        Ok(Reply {
            content,
            thinking: thinking.join("\n\n"),
            stop_reason,
            usage,
        })
    }
}

/// Returns the phase of a message, which newer models require back. The piece precedes the text of the message.
fn phase_of(phase: &RawValue) -> Result<Box<RawValue>, Failure> {
    #[derive(Serialize)]
    struct Opaque<'a> {
        phase: &'a RawValue,
    }
    to_raw_value(&Opaque { phase }).map_err(Failure::unreadable)
}
