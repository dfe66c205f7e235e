//! MCP: messages of a server, as a response body, as events or as lines of a program, and their conversion for the model.

use std::time::Duration;

use frames::{Lines, message};
use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde_json::Value;

use super::sse::stream;
use crate::{Bounds, Input, Line, text};

#[path = "../../../crates/connect/src/mcp/content.rs"]
mod content;
#[path = "../../../crates/connect/src/mcp/frames.rs"]
mod frames;
#[path = "../../../crates/connect/src/mcp/lenient.rs"]
mod lenient;
#[path = "../../../crates/connect/src/mcp/listing.rs"]
mod listing;
#[path = "../../../crates/connect/src/mcp/schema.rs"]
mod schema;
#[path = "../../../crates/connect/src/mcp/task_report.rs"]
mod task_report;

const BOUNDS: Bounds = Bounds {
    memory: Line {
        base: 256 << 10,
        per_byte: 250,
    },
    time: Line {
        base: 20_000_000,
        per_byte: 5_000,
    },
};
/// Maximum size of a server's output, in bytes.
const MOST: usize = 128 << 10;

#[derive(Clone, Copy)]
enum Way {
    Body,
    Events,
    Lines,
}

/// Checks one input.
pub fn check(data: &[u8]) {
    let input = Input::repeated(data, MOST);
    let Some(way) = input.way([Way::Body, Way::Events, Way::Lines]) else {
        return;
    };
    let shown = BOUNDS.hold(input.bytes.len(), || match way {
        Way::Body => shown(read(&input.bytes)),
        Way::Events => shown(events([&*input.bytes].into_iter())),
        Way::Lines => shown(lines([&*input.bytes].into_iter())),
    });
    let pieces = BOUNDS.hold(input.bytes.len(), || match way {
        Way::Body => shown.clone(),
        Way::Events => self::shown(events(input.chunks())),
        Way::Lines => self::shown(lines(input.chunks())),
    });
    assert_eq!(shown, pieces, "chunks make a difference");
    for shown in shown {
        shown.check(input.bytes.len());
    }
}

fn read(bytes: &[u8]) -> Option<ServerJsonRpcMessage> {
    message(bytes, |text| text.into()).ok().or_else(|| {
        let text = String::from_utf8_lossy(bytes);
        lenient::within(&text).or_else(|| {
            let waiting = [RequestId::Number(1)];
            let id = lenient::spoiled_answer(&text, waiting.iter())?.clone();
            Some(frames::unreadable(&text, id))
        })
    })
}

/// Returns the messages of a response with events.
fn events<'a>(mut chunks: impl Iterator<Item = &'a [u8]>) -> Vec<ServerJsonRpcMessage> {
    let (mut parser, mut events) = (stream::Parser::new(frames::MESSAGE_BYTES), Vec::new());
    let _too_large = chunks.try_for_each(|chunk| parser.push(chunk, &mut events));
    events
        .iter()
        .filter_map(|event| read(event.data.as_bytes()))
        .collect()
}

/// Returns the messages of a program.
fn lines<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<ServerJsonRpcMessage> {
    let (mut lines, mut messages) = (Lines::default(), Vec::new());
    for chunk in chunks {
        lines.buffer().extend_from_slice(chunk);
        while let Ok(Some(line)) = lines.next() {
            messages.extend(read(&line));
        }
    }
    messages
}

/// Text of one message for the model.
#[derive(Clone, Debug, PartialEq)]
struct Shown {
    result: String,
    offers: Vec<listing::Offer>,
    notes: Vec<String>,
    task: Option<Result<task_report::NewTask, &'static str>>,
    report: Result<task_report::TaskReport, String>,
}

fn shown(messages: impl IntoIterator<Item = ServerJsonRpcMessage>) -> Vec<Shown> {
    messages.into_iter().filter_map(shown_of).collect()
}

fn shown_of(message: ServerJsonRpcMessage) -> Option<Shown> {
    let result = match message {
        JsonRpcMessage::Response(response) => serde_json::to_value(response.result).ok()?,
        JsonRpcMessage::Error(error) => Value::from(text::line(&error.error.message, 1024)),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => return None,
    };
    let listed = result.get("tools").and_then(Value::as_array);
    let chosen = listing::choose("c", listed.map_or(&[][..], Vec::as_slice), None);
    Some(Shown {
        result: text::bounded(&content::render(&result, &mut |_| None).text, 64 << 10).into_owned(),
        offers: chosen.offers,
        notes: chosen.notes,
        task: task_report::new_task(&result),
        report: task_report::task_report(result),
    })
}

fn is_pace(pace: Duration) -> bool {
    (task_report::SHORTEST_PACE..=task_report::LONGEST_PACE).contains(&pace)
}

impl Shown {
    fn check(&self, bytes: usize) {
        assert!(
            self.result.len() <= 20 * bytes + 1000,
            "{} bytes of a result",
            self.result.len()
        );
        assert!(!self.result.contains('\0'));
        assert!(self.offers.len() <= listing::TOOLS && self.notes.len() <= 20);
        assert!(
            self.notes
                .iter()
                .all(|note| note.len() <= 300 && !note.contains('\n'))
        );
        if let Some(Ok(task)) = &self.task {
            assert!((1..=task_report::ID_BYTES).contains(&task.id.len()));
            assert!(is_pace(task.pace));
        }
        match &self.report {
            Ok(report) => assert!(report.pace.is_none_or(is_pace)),
            Err(why) => assert!(why.len() <= 200 && !why.contains('\n'), "{why}"),
        }
        for offer in &self.offers {
            let name = &offer.name;
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            assert!(
                (1..=64).contains(&name.len()) && name.bytes().all(is_allowed),
                "{name:?}"
            );
            assert!(!offer.tool.is_empty() && offer.tool.len() <= 256);
            assert!(
                offer.description.len() <= 1300 && offer.description == text::visible(&offer.description)
            );
            assert!(offer.parameters.len() <= 16 << 10);
            let parameters = serde_json::from_str::<Value>(&offer.parameters);
            assert!(
                parameters.is_ok_and(|schema| schema["type"] == "object"),
                "{}",
                offer.parameters
            );
        }
    }
}
