//! Tools of the MCP server: those for any run, and each saved workflow.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations, object};
use serde::Deserialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use sortie_api::{Refusal, Timestamp, workflow::WorkflowSummary};

/// Longest name of a tool that all clients accept.
const NAME_CHARS: usize = 64;

/// Name of the argument for a workflow with an input that may be no object.
const INPUT: &str = "input";

/// Tools for any run, from `tools.json`.
#[derive(Debug, Deserialize)]
pub(crate) struct Catalog {
    /// Schema of a run as a tool returns it.
    run: Arc<JsonObject>,
    tools: Vec<Tool>,
}

impl Catalog {
    /// Reads the tools.
    pub(crate) fn parse() -> serde_json::Result<Self> {
        let mut catalog: Self = serde_json::from_str(include_str!("tools.json"))?;
        let run = Arc::clone(&catalog.run);
        for tool in &mut catalog.tools {
            if matches!(&*tool.name, "start_run" | "get_run" | "wait_run" | "cancel_run") {
                tool.output_schema = Some(Arc::clone(&run));
            }
        }
        Ok(catalog)
    }

    /// Returns the tools for any run.
    pub(super) fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Whether a tool for any run has an argument.
    pub(super) fn has_argument(&self, tool: &str, argument: &str) -> bool {
        let tool = self.tools.iter().find(|known| known.name == tool);
        let arguments = tool.and_then(|tool| tool.input_schema.get("properties"));
        arguments.is_some_and(|arguments| arguments.get(argument).is_some())
    }

    /// Whether a workflow of this name is a tool. Some clients refuse all tools of a server if the name of one is long or has a
    /// dot, and a tool for any run hides a workflow of its name. `start_run` starts these workflows.
    pub(super) fn publishes(&self, workflow: &str) -> bool {
        let is_accepted = workflow.len() <= NAME_CHARS && !workflow.contains('.');
        is_accepted && self.tools.iter().all(|tool| tool.name != workflow)
    }

    /// Makes the tool of a workflow.
    pub(super) fn tool_of(&self, workflow: &WorkflowSummary) -> Result<Tool, Refusal> {
        let input = ToolInput::of(workflow)?;
        let mut output = (*self.run).clone();
        if let Some(schema) = &workflow.output_schema
            && let Some(Value::Object(fields)) = output.get_mut("properties")
        {
            fields.insert("output".to_owned(), nested_schema(workflow, "output", schema)?);
        }
        let description = workflow.description.clone();
        let description = description.unwrap_or_else(|| format!("Runs the workflow {}.", workflow.name));
        let annotations = ToolAnnotations::new().read_only(false).open_world(true);
        Ok(Tool::new(workflow.name.clone(), description, input.schema)
            .with_raw_output_schema(Arc::new(output))
            .with_annotations(annotations))
    }
}

/// Returns a schema of a workflow as a part of another schema. References in it begin at its own root, so it gets an ID (JSON
/// Schema 2020-12, section 8.2.1). The ID differs after each change, because some clients keep schemas by ID.
fn nested_schema(workflow: &WorkflowSummary, role: &str, schema: &RawValue) -> Result<Value, Refusal> {
    let mut schema: Value = serde_json::from_str(schema.get()).map_err(Refusal::internal)?;
    let has_reference = has_reference(&schema);
    if let Value::Object(fields) = &mut schema
        && has_reference
        && !fields.contains_key("$id")
    {
        let changed_at = workflow.updated_at.map_or(0, Timestamp::as_micros);
        let id = format!("urn:sortie:workflow:{}:{changed_at}:{role}", workflow.name);
        fields.insert("$id".to_owned(), id.into());
    }
    Ok(schema)
}

fn has_reference(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            let is_reference = |name: &str| fields.get(name).is_some_and(Value::is_string);
            is_reference("$ref") || is_reference("$dynamicRef") || fields.values().any(has_reference)
        }
        Value::Array(items) => items.iter().any(has_reference),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Input of a workflow as the arguments of a tool, which are always an object.
pub(super) struct ToolInput {
    schema: JsonObject,
    form: ArgumentForm,
}

/// Place of an input in the arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ArgumentForm {
    /// The arguments are the input, or there are none for the default input of the workflow.
    OptionalObject,
    /// The arguments are the input.
    Object,
    /// The input is the argument [`INPUT`], because it may be no object.
    Member,
}

impl ToolInput {
    /// Reads the input schema of a workflow.
    pub(super) fn of(workflow: &WorkflowSummary) -> Result<Self, Refusal> {
        let Some(schema) = &workflow.input_schema else {
            return Ok(Self {
                schema: object(json!({"type": "object"})),
                form: ArgumentForm::OptionalObject,
            });
        };
        if let Ok(schema) = serde_json::from_str::<JsonObject>(schema.get())
            && schema.get("type") == Some(&json!("object"))
        {
            return Ok(Self {
                schema,
                form: ArgumentForm::Object,
            });
        }
        let input = nested_schema(workflow, INPUT, schema)?;
        Ok(Self {
            schema: object(json!({
                "type": "object", "properties": {INPUT: input}, "required": [INPUT], "additionalProperties": false
            })),
            form: ArgumentForm::Member,
        })
    }

    /// Returns the input in the arguments of a call.
    pub(super) fn in_arguments(&self, mut arguments: JsonObject) -> Result<Option<Box<RawValue>>, Refusal> {
        let input = match self.form {
            ArgumentForm::OptionalObject if arguments.is_empty() => None,
            ArgumentForm::OptionalObject | ArgumentForm::Object => Some(Value::Object(arguments)),
            ArgumentForm::Member => arguments.remove(INPUT),
        };
        input
            .map(|input| to_raw_value(&input).map_err(Refusal::internal))
            .transpose()
    }
}
