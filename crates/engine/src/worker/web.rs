//! Web access of one run: its policy, its tools, and the egress of its commands.

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

/// Web tools of a run, and the egress of its commands.
pub(super) struct RunWeb {
    pub(super) tools: Vec<Arc<dyn Tool>>,
    pub(super) egress: Egress,
}

/// Sets up the web access of a run. The error is a sentence for people.
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
    // Commands have network access only if the sandbox can give the run a separate network.
    let egress = if shell == Shell::Allowed && worker.sandbox.capabilities().egress {
        workspace.open_egress(Arc::new(RunGateway {
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

/// Egress of one run's commands: the proxy under the run's policy.
struct RunGateway {
    run: RunId,
    policy: Arc<Policy>,
}

impl Gateway for RunGateway {
    fn serve(&self, listener: TcpListener) -> BoxFuture<'static, ()> {
        let (run, policy) = (self.run, Arc::clone(&self.policy));
        Box::pin(async move {
            let on_event =
                Arc::new(move |event: Event| tracing::debug!(run.id = %run, ?event, "egress of a command"));
            match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => match serve(listener, policy, Limits::default(), on_event).await {},
                Err(error) => {
                    tracing::error!(run.id = %run, %error, "starting the egress proxy of a run failed");
                }
            }
        })
    }
}
