//! `sortie api`: calls any operation of the API and prints its answer.

use std::io::{IsTerminal as _, stdin, stdout};

use reqwest::Method;
use serde_json::{Map, Value};
use sortie_api::{limits::BODY_BYTES, plain};

use super::Context;
use crate::{
    args::{ApiArgs, Document, FieldArg},
    client::{RawAnswer, RawCall, path_of},
    connect::{Connection, Need},
    failure::{Exit, Failure, Result},
    input::{self, STDIN},
    interruption::interruption,
    terminal,
};

pub(super) async fn call(context: &Context, args: ApiArgs) -> Result<Exit> {
    let call = raw_call(args)?;
    let config = context.client_config(&context.flags)?;
    let connection = context.open(&config, Need::Records).await?;
    connection
        .during(async |connection| {
            tokio::select! {
                printed = print_answer(connection, call) => printed,
                () = interruption() => Err(Failure::left()),
            }
        })
        .await
}

async fn print_answer(connection: &Connection, call: RawCall) -> Result<Exit> {
    match connection.client.send_raw(call).await? {
        RawAnswer::Json(body) => print_json(&body)?,
        RawAnswer::Other(mut content) => {
            while let Some(piece) = content.next().await? {
                terminal::print_content(&piece)?;
            }
        }
        RawAnswer::Refused { body, failure } => {
            print_json(&body)?;
            return Err(failure);
        }
    }
    Ok(Exit::Success)
}

/// Prints a body unchanged, or indented on a terminal.
fn print_json(body: &[u8]) -> Result<()> {
    let indented = serde_json::from_slice::<Value>(body)
        .ok()
        .filter(|_| stdout().is_terminal())
        .and_then(|value| serde_json::to_string_pretty(&value).ok());
    match indented {
        Some(text) => terminal::print_content(format!("{text}\n").as_bytes())?,
        None => terminal::print_content(body)?,
    }
    Ok(())
}

/// Returns the call of these arguments.
fn raw_call(args: ApiArgs) -> Result<RawCall> {
    let path = args.path.trim_start_matches('/');
    let mut call = RawCall {
        method: args.method,
        path: path.to_owned(),
        body: args.data.map(|document| body("--data", document)).transpose()?,
    };
    if args.fields.is_empty() {
        return Ok(call);
    }
    if matches!(call.method, Method::GET | Method::DELETE) {
        let query: Vec<_> = args
            .fields
            .into_iter()
            .map(|field| (field.name, field.text))
            .collect();
        call.path = path_of(path, &query);
    } else {
        call.body = Some(object(&args.fields)?.to_string().into_bytes());
    }
    Ok(call)
}

fn object(fields: &[FieldArg]) -> Result<Value> {
    let mut object = Map::new();
    for field in fields {
        if object.insert(field.name.clone(), field.value()).is_some() {
            return Err(Failure::usage(format!("--field {}: given twice", field.name)));
        }
    }
    Ok(Value::Object(object))
}

/// Reads a body, which must be JSON.
fn body(flag: &str, document: Document) -> Result<Vec<u8>> {
    let (place, text) = match document {
        Document::Inline(text) if text == "-" => (
            STDIN.to_owned(),
            input::text(&mut stdin().lock(), STDIN, BODY_BYTES)?,
        ),
        Document::Inline(text) => (flag.to_owned(), text),
        Document::File(path) => (path.display().to_string(), input::file(&path, BODY_BYTES)?),
    };
    match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
        Ok(_) => Ok(text.into_bytes()),
        Err(error) => Err(Failure::usage(format!(
            "{place}: not JSON: {}",
            plain::json(&error)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn called(arguments: &[&str]) -> Result<RawCall> {
        let cli = Cli::try_parse_from(["sortie", "api"].iter().chain(arguments)).unwrap();
        let Command::Api(args) = cli.command else {
            unreachable!("asked for api");
        };
        raw_call(args)
    }

    #[test]
    fn fields_are_the_query_or_the_body() {
        let get = called(&["get", "/v1/runs?tag=a", "--field", "limit=5", "--field", "q=a b"]).unwrap();
        assert_eq!(get.path, "v1/runs?tag=a&limit=5&q=a+b");
        assert_eq!((get.method, get.body), (Method::GET, None));
        let post = called(&["POST", "v1/runs", "--field", "prompt=x", "--field", "max_steps=3"]).unwrap();
        assert_eq!(post.path, "v1/runs");
        assert_eq!(post.body.unwrap(), br#"{"max_steps":3,"prompt":"x"}"#);
    }

    #[test]
    fn a_body_is_json() {
        let put = called(&["PUT", "/v1/x", "--data", "{\"a\": 1}"]).unwrap();
        assert_eq!(put.body.unwrap(), b"{\"a\": 1}");
        for wrong in [
            &["PUT", "x", "--data", "{"][..],
            &["PUT", "x", "--field", "a=1", "--field", "a=2"],
        ] {
            assert_eq!(called(wrong).unwrap_err().exit, Exit::Usage);
        }
    }
}
