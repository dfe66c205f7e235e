//! Web access of a node, shared by the web tools and commands of all its runs.

use std::sync::Arc;

use sortie_api::{ErrorCode, Refusal};
use sortie_net::{Network, Reach};
use sortie_web::{Web, WebSettings};

use crate::kit::options::Options;

/// Returns the network of a reach, with the proxies of the node. A public one excludes this host's own addresses.
pub(crate) fn network(reach: Reach, options: &Options) -> Result<Arc<Network>, Refusal> {
    let network = match reach {
        Reach::Private => Network::new(reach, Vec::new()),
        Reach::Public => Network::of_this_machine(reach)
            .map_err(|error| Refusal::internal(format!("this host's addresses cannot be read: {error}")))?,
    };
    Ok(Arc::new(network.with_outbound(options.outbound.clone())))
}

/// Web access of the runs of this node.
#[derive(Clone)]
pub(crate) struct NodeWeb {
    /// Addresses that any run may reach.
    pub(crate) network: Arc<Network>,
    pub(crate) tools: Arc<Web>,
}

impl NodeWeb {
    /// Sets up web access. By default, runs reach public addresses, without those of this host.
    pub(crate) fn new(options: &Options) -> Result<Self, Refusal> {
        let network = if let Some(network) = &options.network {
            Arc::clone(network)
        } else {
            network(Reach::Public, options)?
        };
        let settings = WebSettings {
            network: Arc::clone(&network),
            robots: options.robots,
            search: options.search.clone(),
            reader: None,
        };
        let tools =
            Web::new(settings).map_err(|error| ErrorCode::InvalidRequest.because(format!("web: {error}")))?;
        Ok(Self { network, tools })
    }
}
