//! Intake: validation of a client's request, and its resolution into a definition that can be stored and run.
//!
//! Intake writes nothing. It reports the first broken rule with the name of its field, in the order of the table in
//! `docs/RUNS.md#fields-of-a-request`.

mod connections;
mod files;
mod schemas;
mod text;
mod web;

use std::{collections::BTreeMap, sync::Arc};

use sortie_api::{
    ErrorCode, Metadata, Micros, OrgId, Refusal, RunId, RunRequest, limits, metadata, request::Callback,
    workflow::NOT_SAVED,
};
use sortie_sandbox::Level;
use sortie_store::{Store, runs::Retention};

use crate::{
    callbacks::Callbacks,
    connections::{Connections, secrets::Secrets},
    kit::{models::Models, options::Options, rules::broken, web::NodeWeb},
    runs::workflows::effective,
};
use schemas::NoInput;

/// A request that has passed every rule.
pub(crate) struct Accepted {
    /// Definition of the run as JSON, with defaults filled in.
    pub(crate) definition: Arc<str>,
    pub(crate) max_cost: Micros,
    pub(crate) timeout_seconds: u32,
    /// Retention of the run's content.
    pub(crate) retention: Retention,
    /// Saved workflow that the request names.
    pub(crate) workflow: Option<String>,
    pub(crate) model: String,
    pub(crate) tags: Vec<String>,
    pub(crate) metadata: Metadata,
    /// Run that this one repeats.
    pub(crate) replay_of: Option<RunId>,
    /// Title and text for searches. Both are stored.
    pub(crate) texts: text::RunTexts,
    /// Credentials of inline connections, by name. They are not in the definition.
    pub(crate) inline: BTreeMap<String, Secrets>,
    /// Completion callback. It is not in the definition either.
    pub(crate) callback: Option<Callback>,
}

/// Rules and resources that a request is checked against.
pub(crate) struct Intake<'a> {
    pub(crate) options: &'a Options,
    pub(crate) models: &'a Models,
    /// Web access of runs.
    pub(crate) web: &'a NodeWeb,
    /// Isolation of commands on this node, or the reason why it can run none.
    pub(crate) commands: Result<Level, &'a str>,
    pub(crate) connections: &'a Connections,
    /// Store of saved workflows and files.
    pub(crate) store: &'a Store,
    pub(crate) callbacks: &'a Callbacks,
    /// Organization that sent the request.
    pub(crate) org: OrgId,
}

impl Intake<'_> {
    /// Checks every rule and resolves the definition.
    pub(crate) async fn accept(&self, request: RunRequest) -> Result<Accepted, Refusal> {
        let mut request = effective(self.store, self.org, request).await?;
        let workflow = request.workflow.take();
        let model = self.check_task(&mut request)?;
        let files = request.files.as_deref_mut().unwrap_or_default();
        files::form(files)?;
        files::resolve(
            self.store,
            self.org,
            files,
            self.options.sandbox_limits.disk_bytes,
        )
        .await?;
        let inline = connections::check(self.connections, self.org, &mut request).await?;
        let (timeout_seconds, max_cost) = self.check_conditions(&mut request)?;
        let replay_of = request.replay_of.take();
        if let Some(id) = replay_of {
            self.check_replayed(id).await?;
        }
        let callback = request.callback.take();
        if let Some(callback) = &callback {
            self.callbacks.check(callback)?;
        }
        schemas::check(&request, NoInput::IsMissing).await?;
        let definition = serde_json::to_string(&request)
            .map_err(|error| Refusal::internal(format!("a definition cannot be serialized: {error}")))?;
        let retention = retention(&request);
        let texts = match retention {
            Retention::Full => text::RunTexts::of(&request),
            Retention::None => text::RunTexts::default(),
        };
        Ok(Accepted {
            definition: definition.into(),
            max_cost,
            timeout_seconds,
            retention,
            workflow,
            model,
            tags: request.tags.unwrap_or_default(),
            metadata: request.metadata.unwrap_or_default(),
            replay_of,
            texts,
            inline,
            callback,
        })
    }

    /// Checks every rule that the definition of a workflow can break before a run uses it. Missing fields stay missing. The
    /// existence of the named files and connections is checked for each run.
    pub(crate) async fn accept_saved(&self, definition: &mut RunRequest) -> Result<(), Refusal> {
        let sent = [
            definition.workflow.is_some(),
            definition.zero_data_retention.is_some(),
            definition.replay_of.is_some(),
            definition.callback.is_some(),
        ];
        if let Some((field, _)) = NOT_SAVED.iter().zip(sent).find(|(_, is_there)| *is_there) {
            return Err(broken(
                field,
                "belongs to a single run and cannot be saved in a workflow",
            ));
        }
        if definition.prompt.is_none() {
            return Err(broken("prompt", "required"));
        }
        files::form(definition.files.as_deref().unwrap_or_default())?;
        if let Some(name) = connections::form(self.connections, definition)?.keys().next() {
            return Err(broken(
                format_args!("connections.{name}"),
                "brings credentials, which a workflow does not keep: use a saved connection",
            ));
        }
        let mut run = RunRequest {
            files: None,
            // Whether this node can run commands is checked only if the definition requires them.
            shell: Some(definition.shell == Some(true)),
            // A language model may be configured before the first run.
            model: definition
                .model
                .clone()
                .or_else(|| Some(self.models.catalog().default_model.clone())),
            ..definition.clone()
        };
        self.check_task(&mut run)?;
        self.check_conditions(&mut run)?;
        schemas::check(&run, NoInput::MayCome).await
    }

    /// Checks `prompt`, `instructions`, `input`, `model` and `fallback_model`. Returns the model to use.
    fn check_task(&self, request: &mut RunRequest) -> Result<String, Refusal> {
        let prompt = request
            .prompt
            .as_deref()
            .ok_or_else(|| broken("prompt", "required unless workflow is set"))?;
        text::prompt(prompt)?;
        text::instructions(request.instructions.as_deref().unwrap_or_default())?;
        if let Some(input) = &request.input
            && input.get().len() > limits::INPUT_BYTES
        {
            return Err(broken(
                "input",
                format!("must be at most {} bytes of JSON", limits::INPUT_BYTES),
            ));
        }
        let id = match &request.model {
            Some(id) => id.clone(),
            None => self
                .models
                .default_for(prompt)
                .map_err(|rule| broken("model", rule))?
                .to_owned(),
        };
        self.check_models(&id, request.fallback_model.as_deref())?;
        request.model = Some(id.clone());
        Ok(id)
    }

    /// Checks description, time limit, steps, shell, web, budget, tags and metadata. Returns the time limit in seconds and the budget.
    fn check_conditions(&self, request: &mut RunRequest) -> Result<(u32, Micros), Refusal> {
        if let Some(description) = &request.description {
            text::description(description)?;
        }
        let timeout_seconds = timeout(request)?;
        check_steps(request)?;
        self.check_shell(request)?;
        web::check(request.web.as_ref(), self.web)?;
        let retention = retention(request);
        let max_cost = self.budget(request, timeout_seconds, retention)?;
        text::tags(request.tags.as_deref().unwrap_or_default())?;
        if let Some(metadata) = &request.metadata {
            metadata::check(metadata).map_err(|rule| ErrorCode::InvalidRequest.because(rule))?;
        }
        Ok((timeout_seconds, max_cost))
    }

    /// Checks that the run exists which a run repeats.
    async fn check_replayed(&self, id: RunId) -> Result<(), Refusal> {
        match self.store.get_listed_run(self.org, id).await {
            Ok(_) => Ok(()),
            Err(sortie_store::Error::NotFound) => Err(broken("replay_of", format!("no run {id}"))),
            Err(error) => Err(error.into()),
        }
    }

    fn check_models(&self, model: &str, fallback: Option<&str>) -> Result<(), Refusal> {
        self.check_model("model", model)?;
        let Some(fallback) = fallback else { return Ok(()) };
        self.check_model("fallback_model", fallback)?;
        if fallback == model {
            return Err(broken("fallback_model", "must be another model than model"));
        }
        Ok(())
    }

    fn check_model(&self, field: &str, id: &str) -> Result<(), Refusal> {
        match self.models.get(id) {
            Some(_) => Ok(()),
            None => Err(broken(field, self.models.unknown(id))),
        }
    }

    fn check_shell(&self, request: &mut RunRequest) -> Result<(), Refusal> {
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

    /// Checks the budget: within its limits and, on a hosted engine, enough for the compute of the whole time limit.
    fn budget(
        &self,
        request: &mut RunRequest,
        timeout_seconds: u32,
        retention: Retention,
    ) -> Result<Micros, Refusal> {
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
        let percent = match retention {
            Retention::Full => 0,
            Retention::None => i64::from(self.options.surcharge_percent),
        };
        let compute = compute.saturating_add(compute.saturating_mul(percent).saturating_add(99) / 100);
        if self.options.mode == sortie_api::Mode::Hosted && micros < compute {
            return Err(broken(
                "max_cost_micros",
                format!("must cover the compute cost of the full timeout, {compute} micros"),
            ));
        }
        Micros::try_from(micros).map_err(|error| broken("max_cost_micros", error))
    }
}

fn retention(request: &RunRequest) -> Retention {
    match request.zero_data_retention {
        Some(true) => Retention::None,
        Some(false) | None => Retention::Full,
    }
}

fn check_steps(request: &mut RunRequest) -> Result<(), Refusal> {
    let steps = *request
        .max_steps
        .get_or_insert(i64::from(limits::MAX_STEPS_DEFAULT));
    if !(1..=i64::from(limits::MAX_STEPS)).contains(&steps) {
        return Err(broken(
            "max_steps",
            format!("must be from 1 to {}", limits::MAX_STEPS),
        ));
    }
    Ok(())
}

fn timeout(request: &mut RunRequest) -> Result<u32, Refusal> {
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
