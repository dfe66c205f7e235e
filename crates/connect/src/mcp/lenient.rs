//! Lenient parsing of messages with slightly invalid JSON or protocol errors.
//!
//! A valid message is parsed once, without overhead. These faults are repaired: unpaired surrogates, control characters in
//! strings, `NaN` and `Infinity`, values that are nested too deeply, responses to the first message that lack fields which this
//! client does not need, responses without `jsonrpc`, and ids of responses that are strings of digits.

use std::collections::BTreeMap;

use rmcp::model::{
    JsonRpcMessage, JsonRpcResponse, ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json, value::RawValue};

use crate::surrogates::unit_at;

/// Maximum nesting depth of values. The JSON library supports 127 levels, and the protocol's types need a few of them.
const DEPTH: usize = 100;
/// Replacement for a value that is nested too deeply.
const TOO_DEEP: &str = "\"[nested too deep: left out]\"";

/// A message, and whether its text was repaired.
pub(super) enum Reading {
    Plain(ServerJsonRpcMessage),
    Mended(ServerJsonRpcMessage),
}

impl Reading {
    fn message(self) -> ServerJsonRpcMessage {
        match self {
            Self::Plain(message) | Self::Mended(message) => message,
        }
    }
}

/// Parses a message.
pub(super) fn read(text: &str) -> serde_json::Result<ServerJsonRpcMessage> {
    reading(text).map(Reading::message)
}

/// Parses a message like [`read`], and reports if it was repaired.
pub(super) fn reading(text: &str) -> serde_json::Result<Reading> {
    match serde_json::from_str(text) {
        Ok(message) => Ok(completed(message)),
        Err(error) => {
            let bare = text.trim_start_matches('\u{feff}');
            let mended = mended(bare).or_else(|| (bare.len() < text.len()).then(|| bare.to_owned()));
            let message = serde_json::from_str(&mended.ok_or(error)?)?;
            Ok(Reading::Mended(completed(message).message()))
        }
    }
}

/// Adds missing fields to the response to the first message, and converts the id of a response to a number if possible.
fn completed(mut message: ServerJsonRpcMessage) -> Reading {
    match &mut message {
        JsonRpcMessage::Response(response) => response.id = numbered(response.id.clone()),
        JsonRpcMessage::Error(error) => error.id = error.id.take().map(numbered),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
    }
    if let JsonRpcMessage::Response(JsonRpcResponse { jsonrpc, id, result }) = &message
        && let ServerResult::CustomResult(custom) = result
        && let Some(result) = handshake(&custom.0)
    {
        return Reading::Mended(JsonRpcMessage::Response(JsonRpcResponse {
            jsonrpc: *jsonrpc,
            id: id.clone(),
            result,
        }));
    }
    Reading::Plain(message)
}

/// Converts an id that is a string of digits to a number, because this client uses numbers as ids of requests. Other ids stay
/// unchanged.
fn numbered(id: RequestId) -> RequestId {
    let number = match &id {
        RequestId::String(digits) => digits.parse::<i64>().ok(),
        RequestId::Number(_) => None,
    };
    number.map_or(id, RequestId::Number)
}

/// Completes a result of `initialize` or `server/discover`: the revision and the presence of tools as the server reports them,
/// other fields empty. `None` for another result.
fn handshake(result: &Value) -> Option<ServerResult> {
    let of_server = [
        "protocolVersion",
        "supportedVersions",
        "serverInfo",
        "capabilities",
    ];
    let fields = result
        .as_object()
        .filter(|fields| of_server.iter().any(|name| fields.contains_key(*name)))?;
    let has_tools = fields
        .get("capabilities")
        .and_then(|capabilities| capabilities.get("tools"))
        .is_some_and(|tools| !tools.is_null() && *tools != Value::Bool(false));
    let mut capabilities = Map::new();
    if has_tools {
        capabilities.insert("tools".to_owned(), json!({}));
    }
    let whole = if let Some(versions) = fields.get("supportedVersions") {
        json!({
            "resultType": "complete", "supportedVersions": versions, "capabilities": capabilities, "ttlMs": 0,
            "cacheScope": "private"
        })
    } else {
        let asked_for = ProtocolVersion::LATEST_WITH_INITIALIZE;
        let version = fields.get("protocolVersion").and_then(Value::as_str);
        json!({
            "protocolVersion": version.unwrap_or(asked_for.as_str()), "capabilities": capabilities,
            "serverInfo": {"name": "", "version": ""}
        })
    };
    let whole: ServerResult = serde_json::from_value(whole).ok()?;
    (!matches!(whole, ServerResult::CustomResult(_))).then_some(whole)
}

/// Returns the request that an invalid message responds to: the one that it names, or otherwise the only pending one. `None` for
/// a text that is not an invalid response, such as a log line. A message that repeats a request is not a response. In an object
/// without an id of its request, ids inside of the result are ignored.
pub(super) fn spoiled_answer<'a>(
    text: &str,
    waiting: impl Iterator<Item = &'a RequestId>,
) -> Option<&'a RequestId> {
    let place = |word: &str| text.find(word).unwrap_or(text.len());
    let outcome = place("result").min(place("error"));
    if !text.contains("jsonrpc") || place("method") < outcome {
        return None;
    }
    let waiting: Vec<&RequestId> = waiting.collect();
    let only = || waiting.first().copied().filter(|_| waiting.len() == 1);
    if members(text).is_some_and(|members| is_nameless(&members)) {
        return only();
    }
    let (head, rest) = text.split_at_checked(outcome)?;
    let named = |part: &str| {
        let id = ids(part).find_map(|id| waiting.iter().find(|waits| ***waits == id).copied());
        (id, ids(part).next().is_some())
    };
    match (named(head), named(rest)) {
        ((Some(id), _), _) | ((None, false), (Some(id), _)) => Some(id),
        ((None, true), _) => None,
        // Valid JSON is what the server meant to send.
        _ if serde_json::from_str::<IgnoredAny>(text).is_ok() => None,
        _ => only(),
    }
}

/// The members of an object, unparsed.
type Members<'a> = BTreeMap<String, &'a RawValue>;

/// Parses the members of an object.
fn members(text: &str) -> Option<Members<'_>> {
    serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()
}

/// Whether an object is a response without an id.
fn is_nameless(members: &Members<'_>) -> bool {
    let has = |name: &str| members.contains_key(name);
    has("jsonrpc")
        && !has("method")
        && (has("result") || has("error"))
        && members.get("id").is_none_or(|id| id.get() == "null")
}

/// Adds the version to an object that is otherwise a response. `None` for another text: results and errors must be objects, which
/// distinguishes them from most log lines.
fn with_version(text: &str) -> Option<String> {
    let members = members(text)?;
    if members.contains_key("method") {
        return None;
    }
    let RequestId::Number(id) = numbered(serde_json::from_str(members.get("id")?.get()).ok()?) else {
        return None;
    };
    let outcome = |name: &str| {
        let value = members.get(name).map(|value| value.get());
        value.filter(|value| *value != "null")
    };
    let (name, value) = match (outcome("result"), outcome("error")) {
        (Some(result), None) => ("result", result),
        (None, Some(error)) => ("error", error),
        (Some(_), Some(_)) | (None, None) => return None,
    };
    value
        .starts_with('{')
        .then(|| format!(r#"{{"jsonrpc":"2.0","id":{id},"{name}":{value}}}"#))
}

/// Returns the ids in a part of invalid JSON.
fn ids(part: &str) -> impl Iterator<Item = RequestId> {
    part.split("\"id\"").skip(1).filter_map(|behind| {
        let value = behind.trim_start().strip_prefix(':')?.trim_start();
        if let Some(string) = value.strip_prefix('"') {
            return Some(numbered(RequestId::String(string.split('"').next()?.into())));
        }
        let digits = value.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok().map(RequestId::Number)
    })
}

/// Finds the response in a line that is not a message: an object without `jsonrpc`, or a message with other text before or after
/// it, because programs print without line feeds. The caller must check if a request is pending for it.
pub(super) fn within(line: &str) -> Option<ServerJsonRpcMessage> {
    let whole = with_version(line).or_else(|| with_version(&mended(line)?));
    if let Some(answer) = whole.and_then(|whole| read(&whole).ok()) {
        return Some(answer);
    }
    let (before, _) = line.split_once("{\"jsonrpc\"")?;
    let rest = line.get(before.len()..)?;
    let first = |text: &str| -> Option<ServerJsonRpcMessage> {
        serde_json::Deserializer::from_str(text).into_iter().next()?.ok()
    };
    let message = completed(first(rest).or_else(|| first(&mended(rest)?))?).message();
    matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)).then_some(message)
}

/// Repairs invalid JSON. `None` if there is nothing to repair.
fn mended(text: &str) -> Option<String> {
    let mut mender = Mender {
        text,
        copied: 0,
        mended: String::new(),
    };
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = text.as_bytes().get(at) {
        at = match byte {
            b'"' => mender.string(at),
            b'{' | b'[' if depth >= DEPTH => {
                let end = end_of_value(text, at);
                mender.replace(at, end, TOO_DEEP)
            }
            b'{' | b'[' => {
                depth += 1;
                at + 1
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at + 1
            }
            b'N' | b'I' | b'-' => {
                let rest = text.get(at..).unwrap_or_default();
                let words = ["NaN", "Infinity", "-Infinity"];
                match words.iter().find(|word| rest.starts_with(**word)) {
                    Some(word) => mender.replace(at, at + word.len(), "null"),
                    None => at + 1,
                }
            }
            _ => at + 1,
        };
    }
    mender.finished()
}

/// A copy of a text with replacements.
struct Mender<'a> {
    text: &'a str,
    /// Length of the processed part of the text, in bytes.
    copied: usize,
    mended: String,
}

impl Mender<'_> {
    /// Replaces a part, and returns its end.
    fn replace(&mut self, start: usize, end: usize, by: &str) -> usize {
        self.mended
            .push_str(self.text.get(self.copied..start).unwrap_or_default());
        self.mended.push_str(by);
        self.copied = end;
        end
    }

    /// Repairs the string that starts at `start`, and returns its end.
    fn string(&mut self, start: usize) -> usize {
        let mut at = start + 1;
        while let Some(byte) = self.text.as_bytes().get(at) {
            at = match byte {
                b'"' => return at + 1,
                b'\\' => match unit_at(self.text, at) {
                    Some(0xd800..=0xdbff) if matches!(unit_at(self.text, at + 6), Some(0xdc00..=0xdfff)) => {
                        at + 12
                    }
                    Some(0xd800..=0xdfff) => self.replace(at, at + 6, "\\ufffd"),
                    Some(_) | None => at + 2,
                },
                0..0x20 => self.replace(at, at + 1, &format!("\\u{byte:04x}")),
                _ => at + 1,
            };
        }
        at
    }

    fn finished(mut self) -> Option<String> {
        let rest = self.text.get(self.copied..).unwrap_or_default();
        (self.copied > 0).then(|| {
            self.mended.push_str(rest);
            self.mended
        })
    }
}

/// Returns the end of the object or array that starts at `start`.
fn end_of_value(text: &str, start: usize) -> usize {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let bytes = text.as_bytes().get(start..).unwrap_or_default();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return start + at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn result(text: &str) -> Option<Value> {
        let message = serde_json::to_value(read(text).ok()?).ok()?;
        message.get("result").cloned()
    }

    fn answer(value: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"x":{value}}}}}"#)
    }

    #[test]
    fn what_spoils_json_is_replaced_and_nothing_else_is() {
        for (value, is) in [
            (r#""a\ud99cb""#, json!("a\u{fffd}b")),
            (r#""a\uDE00""#, json!("a\u{fffd}")),
            (r#""\ud83d\ud83d\ude00""#, json!("\u{fffd}😀")),
            (r#"{"\udc80": "\\ud99c"}"#, json!({"\u{fffd}": "\\ud99c"})),
            (
                r#"[NaN, -Infinity, Infinity, "NaN"]"#,
                json!([null, null, null, "NaN"]),
            ),
            ("\"a\tb\u{1}\"", json!("a\tb\u{1}")),
            // Valid values.
            (r#""\ud83d\ude00 \" NaN""#, json!("😀 \" NaN")),
            ("-1.5e3", json!(-1500.0)),
        ] {
            assert_eq!(result(&answer(value)).unwrap()["x"], is, "{value}");
        }
        assert_eq!(result(&format!("\u{feff}{}", answer("1"))).unwrap()["x"], 1);
        for broken in ["{", "[1,]", "'a'", "nan", "\"\\x\"", "{\"a\" 1}"] {
            assert_eq!(result(&answer(broken)), None, "{broken}");
        }
    }

    #[test]
    fn a_value_that_is_nested_too_deep_costs_that_value() {
        let deep = format!("{}\"]}}\"{}", "{\"a\":[".repeat(75), "]}".repeat(75));
        let read = result(&answer(&format!("[{deep}, 7]"))).unwrap();
        assert_eq!(read["x"][1], 7);
        assert!(read["x"][0].to_string().contains("nested too deep"));
        let endless = answer(&"[".repeat(100_000));
        assert_eq!(result(&endless), None);
    }

    #[test]
    fn answers_to_the_first_message_need_no_more_than_a_revision() {
        let first = |result: Value| read(&json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string());
        for (told, version, has_tools) in [
            (
                json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}),
                "2025-06-18",
                true,
            ),
            (
                json!({"protocolVersion": "2025-03-26", "capabilities": {"tools": null}, "serverInfo": null}),
                "2025-03-26",
                false,
            ),
            (
                json!({"protocolVersion": "2025-06-18", "capabilities": null, "instructions": 7,
                    "serverInfo": {"name": "s", "version": null}}),
                "2025-06-18",
                false,
            ),
            (
                json!({"protocolVersion": null, "capabilities": {"tools": true}}),
                "2025-11-25",
                true,
            ),
            (json!({"serverInfo": {"name": "s"}}), "2025-11-25", false),
        ] {
            let JsonRpcMessage::Response(JsonRpcResponse {
                result: ServerResult::InitializeResult(read),
                ..
            }) = first(told.clone()).unwrap()
            else {
                panic!("{told} is no result of `initialize`");
            };
            assert_eq!(read.protocol_version.as_str(), version, "{told}");
            assert_eq!(read.capabilities.tools.is_some(), has_tools, "{told}");
        }
        for other in [json!({"tools": []}), json!({"content": []}), json!([1])] {
            let read = serde_json::to_value(first(other.clone()).unwrap()).unwrap();
            assert_eq!(read["result"], other);
        }
    }

    #[test]
    fn a_spoiled_answer_is_known_and_a_line_of_a_log_is_none() {
        let ids = [RequestId::Number(3), RequestId::Number(4)];
        for (line, both, one) in [
            (
                r#"{"jsonrpc":"2.0","id":4,"result":{"content":[{"type""#,
                Some(1),
                None,
            ),
            (r#"{"jsonrpc": "2.0", "id": 3}"#, Some(0), Some(0)),
            (
                r#"{"jsonrpc":"2.0","result":{"id":"a","x":'b'},"id":3}"#,
                Some(0),
                Some(0),
            ),
            (r#"{"jsonrpc":"2.0","result":{"id":"a","x":"#, None, Some(0)),
            (r#"{"jsonrpc":"2.0","id":9,"result":{"#, None, None),
            (r#"{"jsonrpc":"2.0","id":"4","result":{"#, Some(1), None),
            (r#"{"jsonrpc":"2.0","id":"4a","result":{"#, None, None),
            (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, None, Some(0)),
            (r#"{"jsonrpc":"2.0","result":{"id":3}}"#, None, Some(0)),
            (r#"{"jsonrpc":"2.0","error":"no"}"#, None, Some(0)),
            (r#"{"jsonrpc":"2.0","id":"a","result":{}}"#, None, None),
            (
                r#"{"jsonrpc":"2.0","result":{},"method":"notifications/a"}"#,
                None,
                None,
            ),
            (r#"{"jsonrpc":"2.0","level":"info"}"#, None, None),
            (r#"{"msg":"jsonrpc","result":{}}"#, None, None),
            ("{'jsonrpc': '2.0', 'id': 3, 'result': {}}", None, Some(0)),
            (r#"  "jsonrpc": "2.0","#, None, Some(0)),
            (
                r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"result"#,
                None,
                None,
            ),
            (r#"{"level": "info", "msg": "result"}"#, None, None),
            ("Server mode: STDIO", None, None),
            ("<html>error</html>", None, None),
        ] {
            let found = |ids: &[RequestId]| {
                let id = spoiled_answer(line, ids.iter())?;
                ids.iter().position(|other| other == id)
            };
            assert_eq!((found(&ids), found(&ids[..1])), (both, one), "{line}");
        }
    }

    #[test]
    fn an_answer_is_found_within_a_line() {
        let answer = answer("1");
        for line in [format!("Loading… {answer}"), format!("\u{1b}[0m{answer}done")] {
            assert!(within(&line).is_some(), "{line}");
        }
        for line in [
            r#"got {"jsonrpc":"2.0","id":3,"method":"tools/call"}"#,
            "Loading",
            r#"{"jsonrpc":"2.0""#,
        ] {
            assert!(within(line).is_none(), "{line}");
        }
    }

    /// Returns the id of the response within a line.
    fn id_within(line: &str) -> Option<Value> {
        let message = serde_json::to_value(within(line)?).unwrap();
        message.get("id").cloned()
    }

    #[test]
    fn an_object_that_is_an_answer_but_for_its_version_is_read() {
        for line in [
            r#"{"id":3,"result":{"x":"a\ud99c"}}"#,
            r#"{"id":"3","error":{"code":-32000,"message":"no"}}"#,
            r#" {"result":{"x":1},"error":null,"id":3.0}"#,
            "\u{feff}{\"jsonrpc\":\"1.0\",\"id\":3,\"result\":{\"x\":NaN}}\r\n",
        ] {
            assert_eq!(id_within(line), Some(json!(3)), "{line}");
        }
        for line in [
            r#"{"id":3,"result":{},"method":"tools/call"}"#,
            r#"{"id":3,"result":{},"error":{"code":1,"message":"no"}}"#,
            r#"{"id":3,"result":"done"}"#,
            r#"{"id":3,"error":"timeout"}"#,
            r#"{"id":3,"level":"info"}"#,
            r#"{"id":"a","result":{}}"#,
            r#"{"id":null,"result":{}}"#,
            r#"{"result":{}}"#,
            r#"[{"id":3,"result":{}}]"#,
            r#"got {"id":3,"result":{}}"#,
        ] {
            assert!(within(line).is_none(), "{line}");
        }
    }

    #[test]
    fn an_id_of_an_answer_that_is_a_string_of_digits_is_its_number() {
        for (id, is) in [("\"3\"", json!(3)), ("3", json!(3)), ("\"3a\"", json!("3a"))] {
            for outcome in [r#""result":{"x":1}"#, r#""error":{"code":1,"message":"no"}"#] {
                let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#);
                let whole = serde_json::to_value(read(&answer).unwrap()).unwrap();
                assert_eq!(whole["id"], is, "{answer}");
                assert_eq!(
                    id_within(&format!("Loading… {answer}")),
                    Some(is.clone()),
                    "{answer}"
                );
            }
        }
        // Ids of a server's requests stay unchanged.
        let asked = read(r#"{"jsonrpc":"2.0","id":"3","method":"ping"}"#).unwrap();
        assert_eq!(serde_json::to_value(asked).unwrap()["id"], "3");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "{", "}", "[", "]", "\"", "\\", "\\u", "d83d", "de00", ":", ",", "NaN", "-", "ä", "{\"jsonrpc\"", "\"id\"",
                    "1", "result", " ",
                ]),
                0..30,
            ),
        ) {
            let text = parts.concat();
            let _ = (read(&text), mended(&text), within(&text), end_of_value(&text, 0));
            let _ = spoiled_answer(&text, [RequestId::Number(1)].iter());
        }
    }
}
