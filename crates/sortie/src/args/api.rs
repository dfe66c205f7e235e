//! Arguments of `sortie api`.

use clap::Args;
use serde_json::Value;

use super::Document;

#[derive(Debug, Args)]
#[command(after_help = "\
Prints the answer of the engine unchanged, indented on a terminal. Streams of
events are printed as they arrive. `sortie openapi` describes all operations.

The exit code is 0 for an answer with a status below 300. Otherwise it is that of
the same failure of another command, such as 64 for a wrong request, 69 for an
engine that cannot answer and 77 for a refused key.

Examples:
  sortie api GET /v1/runs --field limit=5
  sortie api POST /v1/runs --field prompt='Which day is it?' --field max_steps=3
  sortie api PUT /v1/workflows/daily --data @daily.json
  sortie api GET /v1/runs/run_01kafs6w1cefkstv6qr1ptb0mp/events")]
pub(crate) struct ApiArgs {
    /// Method of the call: GET, POST, PUT, PATCH or DELETE
    #[arg(value_parser = method)]
    pub(crate) method: reqwest::Method,
    /// Path of the operation, such as /v1/runs
    pub(crate) path: String,
    /// Body of the call: JSON, @FILE, or `-` for standard input
    #[arg(long, value_name = "JSON|@FILE|-", conflicts_with = "fields")]
    pub(crate) data: Option<Document>,
    /// Field of the body, or of the query of GET and DELETE; a value that is JSON is sent as JSON, any other as a string
    #[arg(long = "field", value_name = "NAME=VALUE", value_parser = field)]
    pub(crate) fields: Vec<FieldArg>,
}

/// `NAME=VALUE`: a field of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldArg {
    pub(crate) name: String,
    /// Text of the value, as the query takes it.
    pub(crate) text: String,
}

impl FieldArg {
    /// Returns the value in a body.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| Value::String(self.text.clone()))
    }
}

fn field(text: &str) -> Result<FieldArg, &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok(FieldArg {
            name: name.to_owned(),
            text: value.to_owned(),
        }),
        Some(_) | None => Err("must be NAME=VALUE"),
    }
}

fn method(text: &str) -> Result<reqwest::Method, &'static str> {
    let known = [
        reqwest::Method::GET,
        reqwest::Method::POST,
        reqwest::Method::PUT,
        reqwest::Method::PATCH,
        reqwest::Method::DELETE,
    ];
    let named = |method: &reqwest::Method| method.as_str().eq_ignore_ascii_case(text);
    known
        .into_iter()
        .find(named)
        .ok_or("must be GET, POST, PUT, PATCH or DELETE")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_json_where_it_can_be_and_text_otherwise() {
        for (text, name, value) in [
            ("a=1", "a", json!(1)),
            ("a=true", "a", json!(true)),
            ("a=null", "a", json!(null)),
            ("a=[1,\"b\"]", "a", json!([1, "b"])),
            ("a=\"1\"", "a", json!("1")),
            ("a=b=c", "a", json!("b=c")),
            ("a=", "a", json!("")),
        ] {
            let read = field(text).unwrap();
            assert_eq!((read.name.as_str(), read.value()), (name, value));
        }
        assert!(field("a").is_err() && field("=a").is_err());
    }

    #[test]
    fn a_method_may_be_written_in_small_letters() {
        assert_eq!(method("post"), Ok(reqwest::Method::POST));
        assert!(method("CONNECT").is_err());
    }
}
