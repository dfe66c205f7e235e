//! The web of one run: its policy, its tools, and the way out of its commands.

use std::{net::TcpListener, sync::Arc};

use futures_util::future::BoxFuture;
use sortie_agent::{Egress, Gateway, Shell, Tool, Workspace};
use sortie_api::{RunId, request::Web as Wanted};
use sortie_net::Policy;
use sortie_web::{
    Search,
    egress::{Event, Limits, serve},
};

use super::Worker;

/// What a run gets of the web.
pub(super) struct RunWeb {
    pub(super) tools: Vec<Arc<dyn Tool>>,
    pub(super) egress: Egress,
}

/// Sets up what a run may do on the web. An error is the run's, in words for people.
pub(super) fn set_up(
    worker: &Worker,
    run: RunId,
    wanted: Option<&Wanted>,
    shell: Shell,
    workspace: &mut Workspace,
) -> Result<RunWeb, String> {
    let (allow, search) = match wanted {
        None | Some(Wanted::Switch(false)) => {
            return Ok(RunWeb {
                tools: Vec::new(),
                egress: Egress::Closed,
            });
        }
        Some(Wanted::Switch(true)) => (None, Search::On),
        Some(Wanted::Restricted(restriction)) => {
            let search = if restriction.search == Some(false) {
                Search::Off
            } else {
                Search::On
            };
            (restriction.allow.as_deref(), search)
        }
    };
    let policy = Policy::new(Arc::clone(&worker.web.network), allow);
    let policy = Arc::new(policy.map_err(|error| format!("web.allow: {error}"))?);
    // Where the host gives a run no network of its own, its commands stay without one.
    let egress = if shell == Shell::Allowed && worker.sandbox.capabilities().egress {
        workspace.let_out(Arc::new(RunGateway {
            run,
            policy: Arc::clone(&policy),
        }));
        Egress::Open
    } else {
        Egress::Closed
    };
    Ok(RunWeb {
        tools: worker.web.tools.tools(policy, search),
        egress,
    })
}

/// The way out of one run's commands: the proxy under the run's policy.
struct RunGateway {
    run: RunId,
    policy: Arc<Policy>,
}

impl Gateway for RunGateway {
    fn serve(&self, listener: TcpListener) -> BoxFuture<'static, ()> {
        let (run, policy) = (self.run, Arc::clone(&self.policy));
        Box::pin(async move {
            let on_event =
                Arc::new(move |event: Event| tracing::debug!(run.id = %run, ?event, "a command's way out"));
            match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => match serve(listener, policy, Limits::default(), on_event).await {},
                Err(error) => tracing::error!(run.id = %run, %error, "the proxy of a run cannot be served"),
            }
        })
    }
}
