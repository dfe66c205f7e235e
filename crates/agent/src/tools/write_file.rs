//! `write_file`: a whole file, created or replaced at once.

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_sandbox::FileError;

use super::{
    Context, Effect, Order, Tool, ToolError, arguments_of,
    files::{RunFiles, with_files},
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
            description: "Writes a text file of the working directory, with the folders above it; an existing file \
                          is replaced as a whole. To change a part of a file use edit_file.",
            parameters: concat!(
                r#"{"type":"object","properties":{"path":{"type":"string"},"#,
                r#""content":{"type":"string","description":"The whole content."}},"#,
                r#""required":["path","content"],"additionalProperties":false}"#
            ),
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
            let arguments: Arguments = arguments_of(&self.definition(), &raw)?;
            with_files(context, move |files| write(files, &arguments)).await
        })
    }
}

fn write(files: &RunFiles<'_>, Arguments { path, content }: &Arguments) -> Result<ToolContent, ToolError> {
    let path = files.file(path)?;
    let done = match files.workdir.size(&path) {
        Ok(_) => "replaced",
        Err(FileError::NotFound) => "created",
        Err(error) => return Err(files.about(&path, &error)),
    };
    files
        .workdir
        .write(&path, content.as_bytes())
        .map_err(|error| files.about(&path, &error))?;
    Ok(ToolContent::Text(format!(
        "{done} {path} ({} bytes)",
        content.len()
    )))
}
