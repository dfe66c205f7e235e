//! `sortie contexts`: the saved engines.

use serde::Serialize;

use super::Context;
use crate::{
    args::ContextsCommand,
    contexts::Contexts,
    failure::{Exit, Result},
    render::{Field, Record, Render, some},
    terminal,
};

/// Saved engine, without its key.
#[derive(Debug, Serialize)]
struct ListedContext {
    name: String,
    url: String,
    /// Whether commands use it if they name no engine.
    current: bool,
}

impl Record for ListedContext {
    const COLUMNS: &'static [Field<Self>] = &[
        ("CURRENT", |context| some(if context.current { "*" } else { "" })),
        ("CONTEXT", |context| some(&context.name)),
        ("ADDRESS", |context| some(&context.url)),
    ];
}

pub(super) fn execute(context: &Context, command: ContextsCommand) -> Result<Exit> {
    let mut contexts = Contexts::read(&context.environment)?;
    match command {
        ContextsCommand::List(render) => list(contexts, &render),
        ContextsCommand::Use { name, none: _ } => {
            if let Some(name) = &name {
                contexts.get(name, "NAME")?;
            }
            let note = match &name {
                Some(name) => format!("commands use {name} from now on"),
                None => "commands use the engine of the data folder from now on".to_owned(),
            };
            contexts.current = name;
            contexts.save(&context.environment)?;
            terminal::note(&note);
            Ok(Exit::Success)
        }
        ContextsCommand::Delete { name } => {
            contexts.get(&name, "NAME")?;
            contexts.contexts.remove(&name);
            contexts.current = contexts.current.filter(|current| *current != name);
            contexts.save(&context.environment)?;
            terminal::note(&format!(
                "deleted {name}; the engine still accepts its key, until `sortie keys revoke` revokes it there"
            ));
            Ok(Exit::Success)
        }
    }
}

fn list(contexts: Contexts, render: &Render) -> Result<Exit> {
    let Contexts { current, contexts } = contexts;
    let listed: Vec<_> = contexts
        .into_iter()
        .map(|(name, engine)| ListedContext {
            current: current.as_ref() == Some(&name),
            url: engine.url,
            name,
        })
        .collect();
    if listed.is_empty() && !render.is_json() {
        terminal::note("no contexts are saved; `sortie login URL` saves one");
    }
    render.list(&listed)
}
