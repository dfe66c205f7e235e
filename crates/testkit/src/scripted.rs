//! A scripted model server: the part that all protocols share.

use std::{io, sync::Arc};

use anyhow::Context as _;
use axum::Router;
use serde_json::Value;
use tokio::time::timeout;

use crate::{PATIENCE, rules::chat::ChatProvider, script::Script, serve::Serving};

/// A running model server. If a request has broken a rule of the provider, dropping the server fails its test.
#[derive(Debug)]
pub struct ScriptedServer {
    server: Serving,
    script: Arc<Script>,
    /// Path of the base address.
    path: &'static str,
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.script.check_at_drop();
    }
}

impl ScriptedServer {
    pub(crate) async fn start(
        router: Router<Arc<Script>>,
        script: Arc<Script>,
        path: &'static str,
    ) -> io::Result<Self> {
        Ok(Self {
            server: Serving::start(router.with_state(Arc::clone(&script))).await?,
            script,
            path,
        })
    }

    /// Also checks requests by the rules of this provider.
    pub fn hold_to(&self, provider: ChatProvider) {
        self.script.rules().provider = provider;
    }

    /// Returns the value for the variable with the base address of the provider.
    pub fn base_url(&self) -> String {
        self.server.base_url() + self.path
    }

    /// The bodies of the requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.script.requests()
    }

    /// Waits until there were `count` requests in all.
    pub async fn asked(&self, count: usize) -> anyhow::Result<()> {
        let mut requests = self.script.requests.subscribe();
        let asked = timeout(PATIENCE, requests.wait_for(|all| all.len() >= count)).await;
        asked.with_context(|| format!("there were not {count} requests"))??;
        Ok(())
    }

    /// Sends the held answers and all later ones.
    pub fn release(&self) {
        self.script.released.send_replace(true);
    }

    /// The size of all requests so far, in bytes.
    pub fn bytes(&self) -> u64 {
        self.script.bytes()
    }

    /// The broken rules of the provider, each once.
    pub fn broken_rules(&self) -> Vec<String> {
        self.script.broken_rules()
    }

    /// Number of thinking blocks that were left out because of an earlier change, as the request had asked.
    pub fn dropped_thinking(&self) -> u32 {
        self.script.rules().dropped
    }

    /// Returns the number of answers that were not requested yet.
    pub fn left(&self) -> usize {
        self.script.left()
    }
}

/// Defines the model server of a protocol: its routes, and the path of its base address.
macro_rules! scripted_server {
    ($name:ident, [$($route:literal => $handler:ident),+], $path:literal) => {
        /// A running model server.
        #[derive(Debug)]
        pub struct $name($crate::ScriptedServer);

        impl std::ops::Deref for $name {
            type Target = $crate::ScriptedServer;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl $name {
            /// Starts a server that gives these answers, one per request; a request beyond them is answered with 500.
            pub async fn start(script: impl IntoIterator<Item = Turn>) -> std::io::Result<Self> {
                Self::serve(Script::new(script)).await
            }

            /// Starts a server that computes each answer from the request.
            pub async fn driven(driver: $crate::model::Driver) -> std::io::Result<Self> {
                Self::serve(Script::driven(driver)).await
            }

            async fn serve(script: std::sync::Arc<Script>) -> std::io::Result<Self> {
                let router = axum::Router::new()$(.route($route, axum::routing::post($handler)))+;
                $crate::ScriptedServer::start(router, script, $path).await.map(Self)
            }
        }
    };
}

pub(crate) use scripted_server;
