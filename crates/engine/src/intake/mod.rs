//! Intake: from a client's request to a definition that can be stored and run, or to the rule it breaks.
//!
//! Nothing is written here. The first rule that is broken is told with the name of its field; the order is that of the
//! contract's table.

mod connections;
mod files;
mod schemas;
mod text;
mod unavailable;
mod web;

use std::{collections::BTreeMap, sync::Arc};

use sortie_api::{Micros, OrgId, RunRequest, limits};
use sortie_sandbox::Level;
use sortie_store::Store;

use crate::{
    Error, Options,
    connections::{Connections, secrets::Secrets},
    models::Models,
    web::NodeWeb,
};

pub(crate) use text::{idempotency_key, name};

/// A request that has passed every rule.
pub(crate) struct Accepted {
    /// The definition the run will use, defaults filled in, as JSON.
    pub(crate) definition: Arc<str>,
    pub(crate) max_cost: Micros,
    pub(crate) timeout_seconds: u32,
    /// The saved workflow it comes from.
    pub(crate) workflow: Option<String>,
    pub(crate) model: String,
    pub(crate) tags: Vec<String>,
    /// The credentials of inline connections, by name; they are not in the definition.
    pub(crate) inline: BTreeMap<String, Secrets>,
}

/// What intake checks a request against.
pub(crate) struct Intake<'a> {
    pub(crate) options: &'a Options,
    pub(crate) models: &'a Models,
    /// What runs get of the web.
    pub(crate) web: &'a NodeWeb,
    /// Whether this node can run commands; the sentence says why not.
    pub(crate) commands: Result<Level, &'a str>,
    pub(crate) connections: &'a Connections,
    pub(crate) store: &'a Store,
    /// Whose request it is.
    pub(crate) org: OrgId,
}

/// A broken rule: `field: rule`.
fn broken(field: impl std::fmt::Display, rule: impl std::fmt::Display) -> Error {
    Error::Invalid(format!("{field}: {rule}"))
}

impl Intake<'_> {
    /// Checks every rule and resolves the definition.
    pub(crate) async fn accept(&self, mut request: RunRequest) -> Result<Accepted, Error> {
        unavailable::workflow(&request)?;
        let prompt = request
            .prompt
            .as_deref()
            .ok_or_else(|| broken("prompt", "required unless workflow is set"))?;
        text::prompt(prompt)?;
        if let Some(input) = &request.input
            && input.get().len() > limits::INPUT_BYTES
        {
            return Err(broken(
                "input",
                format!("must be at most {} bytes of JSON", limits::INPUT_BYTES),
            ));
        }
        let model = self.resolve_model(&mut request)?;
        let files = request.files.as_deref_mut().unwrap_or_default();
        files::check(files)?;
        files::resolve(
            self.store,
            self.org,
            files,
            self.options.sandbox_limits.disk_bytes,
        )
        .await?;
        let inline = connections::check(self.connections, self.org, &mut request).await?;
        if let Some(description) = &request.description {
            text::description(description)?;
        }
        let timeout_seconds = timeout(&mut request)?;
        self.check_shell(&mut request)?;
        web::check(request.web.as_ref(), self.web)?;
        unavailable::zero_data_retention(&request)?;
        let max_cost = self.budget(&mut request, timeout_seconds)?;
        text::tags(request.tags.as_deref().unwrap_or_default())?;
        unavailable::callback(&request)?;
        schemas::check(&request).await?;
        let definition = serde_json::to_string(&request)
            .map_err(|error| Error::Internal(format!("a definition cannot be serialized: {error}")))?;
        Ok(Accepted {
            definition: definition.into(),
            max_cost,
            timeout_seconds,
            workflow: None,
            model,
            tags: request.tags.unwrap_or_default(),
            inline,
        })
    }

    fn resolve_model(&self, request: &mut RunRequest) -> Result<String, Error> {
        let id = request
            .model
            .get_or_insert_with(|| self.models.catalog().default_model.clone());
        if self.models.get(id).is_none() {
            return Err(broken(
                "model",
                format!("no model {id:?}; GET /v1/models lists those there are"),
            ));
        }
        Ok(id.clone())
    }

    fn check_shell(&self, request: &mut RunRequest) -> Result<(), Error> {
        let shell = *request.shell.get_or_insert(true);
        match self.commands {
            Err(reason) if shell => Err(broken(
                "shell",
                format!(
                    "commands are unavailable on this engine: {reason} Set shell to false to run without them"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// The budget: within its limits and, where time is money, enough for the whole time limit.
    fn budget(&self, request: &mut RunRequest, timeout_seconds: u32) -> Result<Micros, Error> {
        let micros = *request
            .max_cost_micros
            .get_or_insert(self.options.default_max_cost.get());
        if !(1..=limits::MAX_COST_MICROS).contains(&micros) {
            return Err(broken(
                "max_cost_micros",
                format!("must be from 1 to {}", limits::MAX_COST_MICROS),
            ));
        }
        let compute = self
            .options
            .compute_micros_per_second
            .get()
            .saturating_mul(i64::from(timeout_seconds));
        if self.options.mode == sortie_api::Mode::Hosted && micros < compute {
            return Err(broken(
                "max_cost_micros",
                format!("must cover the compute cost of the full timeout, {compute} micros"),
            ));
        }
        Micros::try_from(micros).map_err(|error| broken("max_cost_micros", error))
    }
}

fn timeout(request: &mut RunRequest) -> Result<u32, Error> {
    let seconds = *request
        .timeout_seconds
        .get_or_insert(i64::from(limits::TIMEOUT_SECONDS_DEFAULT));
    u32::try_from(seconds)
        .ok()
        .filter(|seconds| (limits::TIMEOUT_SECONDS_MIN..=limits::TIMEOUT_SECONDS_MAX).contains(seconds))
        .ok_or_else(|| {
            broken(
                "timeout_seconds",
                format!(
                    "must be from {} to {}",
                    limits::TIMEOUT_SECONDS_MIN,
                    limits::TIMEOUT_SECONDS_MAX
                ),
            )
        })
}
