//! Workflows, and the definitions that runs used, as they are sent again: values stay as they are written.

use std::collections::BTreeMap;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use sortie_api::{RunId, WorkflowSummary};

use super::Client;
use crate::{args::Name, failure::Result};

/// The definition that a run used, field by field.
#[derive(Debug, Deserialize)]
pub(crate) struct UsedDefinition {
    /// The request's fields.
    pub(crate) request: BTreeMap<String, Box<RawValue>>,
    /// The inline connections whose credentials were not kept.
    pub(crate) requires_credentials: Vec<String>,
}

impl Client {
    /// The saved workflows, with what they are chosen by.
    pub(crate) async fn list_workflows(&self) -> Result<Vec<WorkflowSummary>> {
        self.get("v1/workflows?detail=true").await
    }

    /// A workflow's record.
    pub(crate) async fn get_workflow(&self, name: &Name) -> Result<Box<RawValue>> {
        self.get(&format!("v1/workflows/{name}")).await
    }

    /// Saves a workflow: its definition as it was given, for the engine to judge. Its record.
    pub(crate) async fn put_workflow(&self, name: &Name, definition: &Value) -> Result<Box<RawValue>> {
        let request = self.request(Method::PUT, &format!("v1/workflows/{name}"))?;
        self.read(self.send(request.json(definition)).await?).await
    }

    pub(crate) async fn delete_workflow(&self, name: &Name) -> Result<()> {
        let request = self.request(Method::DELETE, &format!("v1/workflows/{name}"))?;
        self.send(request).await.map(drop)
    }

    /// The definition that a run used, to be sent again.
    pub(crate) async fn used_definition(&self, id: RunId) -> Result<UsedDefinition> {
        self.get(&format!("v1/runs/{id}/definition")).await
    }
}
