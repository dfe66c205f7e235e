//! Saved workflows (`docs/WORKFLOWS.md`): the definition, the record, and the request that a run of one uses.
//!
//! A definition is a run request without the fields in [`NOT_SAVED`]. A field that a request sends together with `workflow`
//! replaces the saved field as a whole, except for `metadata`, which is merged by key; the request uses the saved value of
//! every other field.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{metadata::merged, money::Micros, request::RunRequest, time::Timestamp};

/// The fields of a run request that belong to a single run: no workflow has them.
pub const NOT_SAVED: [&str; 4] = ["workflow", "zero_data_retention", "replay_of", "callback"];

/// Body of `PUT /v1/workflows/{name}`: the fields of a run request that hold for every run of the workflow.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct WorkflowDefinition(pub RunRequest);

/// A saved workflow: its definition as it was saved, with its name, its revision and its times.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Workflow {
    /// Name of the workflow, unique in the organization.
    #[schema(example = "daily-report")]
    pub name: String,
    /// Definition that runs start from: its fields stand beside the others.
    #[serde(flatten)]
    #[schema(ignore)]
    pub definition: RunRequest,
    /// Revision of the definition: 1 at first, and one more with each change.
    #[schema(minimum = 1)]
    pub revision: i64,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change of the definition.
    pub updated_at: Timestamp,
}

/// A workflow in a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WorkflowSummary {
    /// Name of the workflow.
    #[schema(example = "daily-report")]
    pub name: String,
    /// With `detail=true`: purpose of the workflow, where one is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
    /// With `detail=true`: ID of the model that is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// With `detail=true`: IDs or names of the saved files that the definition uses, as saved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable = false)]
    pub files: Vec<String>,
    /// With `detail=true`: names of the saved connections that the definition uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(nullable = false)]
    pub connections: Vec<String>,
    /// With `detail=true`: revision of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    pub revision: Option<i64>,
    /// With `detail=true`: time of the last change of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub updated_at: Option<Timestamp>,
    /// With `detail=true`: number of runs that were created in the last 30 days, today included, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0)]
    pub runs_30d: Option<i64>,
    /// With `detail=true`: cost of these runs so far, in micros.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub cost_30d_micros: Option<Micros>,
    /// With `detail=true`: the JSON Schema of its `input`, where one is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, nullable = false)]
    pub input_schema: Option<Box<RawValue>>,
    /// With `detail=true`: the JSON Schema of its runs' output, where one is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, nullable = false)]
    pub output_schema: Option<Box<RawValue>>,
}

impl RunRequest {
    /// Returns the request that a run of a workflow uses: each field as sent, else as `saved`. `metadata` has the pairs of
    /// both, and the sent one if both have the key. Fields of a single run come from the request alone.
    #[must_use]
    pub fn over(self, saved: Self) -> Self {
        Self {
            prompt: self.prompt.or(saved.prompt),
            instructions: self.instructions.or(saved.instructions),
            input: self.input.or(saved.input),
            workflow: self.workflow,
            model: self.model.or(saved.model),
            fallback_model: self.fallback_model.or(saved.fallback_model),
            effort: self.effort.or(saved.effort),
            files: self.files.or(saved.files),
            connections: self.connections.or(saved.connections),
            description: self.description.or(saved.description),
            input_schema: self.input_schema.or(saved.input_schema),
            output_schema: self.output_schema.or(saved.output_schema),
            timeout_seconds: self.timeout_seconds.or(saved.timeout_seconds),
            max_steps: self.max_steps.or(saved.max_steps),
            shell: self.shell.or(saved.shell),
            web: self.web.or(saved.web),
            zero_data_retention: self.zero_data_retention,
            max_cost_micros: self.max_cost_micros.or(saved.max_cost_micros),
            tags: self.tags.or(saved.tags),
            metadata: merged(self.metadata, saved.metadata),
            replay_of: self.replay_of,
            callback: self.callback,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::{prelude::*, sample::subsequence};
    use serde_json::{Map, Value, json};

    use super::*;

    /// Every field of a run request with a value, of which there are two that differ in all of it.
    fn whole(which: u8) -> Map<String, Value> {
        let request = json!({
            "prompt": format!("p{which}"), "instructions": format!("s{which}"), "input": {"at": which, format!("only{which}"): [1]},
            "workflow": format!("w{which}"), "model": format!("m{which}"),
            "fallback_model": format!("b{which}"), "effort": if which == 1 { "low" } else { "max" },
            "files": [{"path": format!("f{which}"), "content": ""}],
            "connections": {format!("c{which}"): {"ref": "crm", "allowed_methods": ["GET"]}},
            "description": format!("d{which}"), "input_schema": {"title": format!("i{which}")},
            "output_schema": {"title": format!("o{which}")}, "timeout_seconds": i64::from(which), "max_steps": i64::from(which),
            "shell": which == 1, "web": {"search": which == 1}, "zero_data_retention": which == 1,
            "max_cost_micros": i64::from(which), "tags": [format!("t{which}")],
            "metadata": {"both": format!("v{which}"), format!("only{which}"): ""},
            "replay_of": format!("run_01kafs6w1cefkstv6qr1ptb0m{which}"),
            "callback": {"url": format!("https://{which}.example/"), "secret": "s"},
        });
        request.as_object().cloned().unwrap()
    }

    fn fields() -> Vec<String> {
        whole(1).keys().cloned().collect()
    }

    fn some_of(which: u8, names: &[String]) -> (RunRequest, Map<String, Value>) {
        let mut all = whole(which);
        all.retain(|name, _| names.contains(name));
        (serde_json::from_value(all.clone().into()).unwrap(), all)
    }

    proptest! {
        #[test]
        fn fields_that_are_sent_replace_whole_except_metadata_and_all_others_stay(
            sent in subsequence(fields(), 0..=22),
            saved in subsequence(fields(), 0..=22),
        ) {
            let saved: Vec<String> = saved.into_iter().filter(|name| !NOT_SAVED.contains(&name.as_str())).collect();
            let (request, mut sent) = some_of(1, &sent);
            let (definition, saved) = some_of(2, &saved);
            if sent.contains_key("metadata") && saved.contains_key("metadata") {
                sent["metadata"] = json!({"both": "v1", "only1": "", "only2": ""});
            }
            let run = serde_json::to_value(request.over(definition)).unwrap();
            let mut expected = saved;
            expected.extend(sent);
            prop_assert_eq!(run, Value::from(expected));
        }
    }

    #[test]
    fn every_field_of_a_request_takes_part() {
        let known: BTreeSet<String> = fields().into_iter().collect();
        let told = serde_json::from_str::<RunRequest>(r#"{"":0}"#)
            .unwrap_err()
            .to_string();
        let told: BTreeSet<String> = told.split('`').skip(3).step_by(2).map(str::to_owned).collect();
        assert_eq!(told, known);
    }

    #[test]
    fn a_record_is_flat() {
        let record = Workflow {
            name: "daily".to_owned(),
            definition: serde_json::from_str(r#"{"prompt":"x","input":{"n": 12345678901234567890123}}"#)
                .unwrap(),
            revision: 2,
            created_at: Timestamp::from_micros(0),
            updated_at: Timestamp::from_micros(1_000),
        };
        assert_eq!(
            serde_json::to_string(&record).unwrap(),
            r#"{"name":"daily","prompt":"x","input":{"n": 12345678901234567890123},"revision":2,"created_at":"1970-01-01T00:00:00.000Z","updated_at":"1970-01-01T00:00:00.001Z"}"#
        );
    }
}
