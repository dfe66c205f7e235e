//! `write_file`: a whole file, created or replaced at once.

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_sandbox::{FileError, Workdir};

use super::{
    Context, Effect, Order, Tool, ToolError, arguments,
    files::{about, file_path, with_workdir},
};
use crate::{content::ToolContent, model::ToolDefinition};

pub(super) struct WriteFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    content: String,
}

impl Tool for WriteFile {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "write_file",
            description: "Writes a text file of the working directory, with the folders above it; a file that is \
                          there is replaced as a whole. To change a part of a file use edit_file.",
            parameters: r#"{
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Path from the working directory."},
                    "content": {"type": "string", "description": "The whole content."}
                },
                "required": ["path", "content"],
                "additionalProperties": false
            }"#,
        }
    }

    fn order(&self) -> Order {
        Order::OneByOne
    }

    fn effect(&self, _arguments: &RawValue) -> Effect {
        Effect::Directory
    }

    fn call<'a>(
        &'a self,
        raw: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        Box::pin(async move {
            let arguments: Arguments = arguments(&raw)?;
            with_workdir(context, move |workdir| write(workdir, &arguments)).await
        })
    }
}

fn write(workdir: &Workdir, Arguments { path, content }: &Arguments) -> Result<ToolContent, ToolError> {
    let file = file_path(path)?;
    let done = match workdir.size(&file) {
        Ok(_) => "replaced",
        Err(FileError::NotFound) => "created",
        Err(error) => return Err(about(path, &error)),
    };
    workdir
        .write(&file, content.as_bytes())
        .map_err(|error| about(path, &error))?;
    Ok(ToolContent::Text(format!(
        "{done} {path} ({} bytes)",
        content.len()
    )))
}
