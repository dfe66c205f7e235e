//! Calls of operations of the API: from the arguments of a command to the printed answer.
//!
//! [`Context::list`], [`Context::pages`], [`Context::one`] and [`Context::done`] connect, make one call, close the connection
//! and print the answer. A command of several calls makes them in [`Context::call`] and prints with [`Render`]. A command
//! that needs more than a client uses [`Context::with`].

use serde::{Serialize, de::DeserializeOwned};

use super::{Context, operators};
use crate::{
    args::{InstallationArgs, OperatorArgs},
    client::{Call, Client, Listed, Parameter},
    connect::{Connection, Need},
    failure::{Exit, Result},
    render::{Record, Render},
};

/// Arguments that name an API, and the format of its answer.
pub(super) trait Target {
    fn render(&self) -> &Render;

    /// Finds the API, or starts an engine if the command may do so.
    async fn connect(&self, context: &Context) -> Result<Connection>;
}

impl Target for Render {
    fn render(&self) -> &Render {
        self
    }

    async fn connect(&self, context: &Context) -> Result<Connection> {
        let config = context.client_config(&context.flags)?;
        context.open(&config, Need::Records).await
    }
}

impl Target for OperatorArgs {
    fn render(&self) -> &Render {
        &self.render
    }

    async fn connect(&self, context: &Context) -> Result<Connection> {
        operators::client(context, self).map(|client| Connection::remote(client, None))
    }
}

impl Target for InstallationArgs {
    fn render(&self) -> &Render {
        &self.render
    }

    /// Connects to the organization API for the operator of a hosted deployment, else to an engine.
    async fn connect(&self, context: &Context) -> Result<Connection> {
        if let Some((url, from)) = operators::deployment(context, self)? {
            let client = operators::client_at(context, &url, from)?;
            return Ok(Connection::remote(client, None));
        }
        let config = context.client_config(&context.flags)?;
        let named = context.named_engine();
        if config.hosted.is_some() && named.is_none() {
            return Err(operators::no_deployment());
        }
        context.open(&config, Need::Records).await
    }
}

#[expect(
    clippy::future_not_send,
    reason = "the runtime polls a command on the main thread only"
)]
impl Context {
    /// Does `work` with a connection, then closes it.
    pub(super) async fn with<T>(
        &self,
        target: &impl Target,
        work: impl AsyncFnOnce(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        target.connect(self).await?.during(work).await
    }

    /// Does `work` with a client, and closes the connection before it returns.
    pub(super) async fn call<T>(
        &self,
        target: &impl Target,
        work: impl AsyncFnOnce(&Client) -> Result<T>,
    ) -> Result<T> {
        self.with(target, async |connection| work(&connection.client).await)
            .await
    }

    /// Makes one call, and closes the connection before it returns the answer.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        target: &impl Target,
        call: Call<'_, impl Serialize + Sync>,
    ) -> Result<T> {
        self.call(target, async |client| client.ask(call).await).await
    }

    /// Makes a call and prints the records in its answer.
    pub(super) async fn list<T: Record + DeserializeOwned>(
        &self,
        target: &impl Target,
        call: Call<'_, impl Serialize + Sync>,
    ) -> Result<Exit> {
        let records: Vec<T> = self.ask(target, call).await?;
        target.render().list(&records)
    }

    /// Reads a list page by page and prints it: all records that match the filters, or the first `limit` of them.
    pub(super) async fn pages<T: Record + DeserializeOwned>(
        &self,
        target: &impl Target,
        path: &str,
        filters: &[Parameter],
        limit: Option<u32>,
    ) -> Result<Exit> {
        let read = async |client: &Client| client.pages(path, filters, limit).await;
        let listed: Listed<T> = self.call(target, read).await?;
        target.render().listed(&listed)
    }

    /// Makes a call and prints the record that is its answer.
    pub(super) async fn one<T: Record + DeserializeOwned>(
        &self,
        target: &impl Target,
        call: Call<'_, impl Serialize + Sync>,
    ) -> Result<Exit> {
        let record: T = self.ask(target, call).await?;
        target.render().one(&record)
    }

    /// Makes a call and prints `note` of the answer.
    pub(super) async fn done<T: Serialize + DeserializeOwned>(
        &self,
        target: &impl Target,
        call: Call<'_, impl Serialize + Sync>,
        note: impl FnOnce(&T) -> String,
    ) -> Result<Exit> {
        let answer: T = self.ask(target, call).await?;
        target.render().done(&answer, note)
    }
}
