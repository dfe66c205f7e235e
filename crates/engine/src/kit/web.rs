//! The web of a node: what the web tools and the commands of all its runs share.

use std::sync::Arc;

use sortie_net::{Network, Reach};
use sortie_web::{Web, WebSettings};

use crate::{error::Error, kit::options::Options};

/// The network of a reach: the public one is without this host's own addresses.
pub(crate) fn network(reach: Reach) -> Result<Arc<Network>, Error> {
    let network = match reach {
        Reach::Private => Network::new(reach, Vec::new()),
        Reach::Public => Network::of_this_machine(reach)
            .map_err(|error| Error::Internal(format!("this host's addresses cannot be read: {error}")))?,
    };
    Ok(Arc::new(network))
}

/// The web as runs of this node get it.
#[derive(Clone)]
pub(crate) struct NodeWeb {
    /// Where runs may reach at all.
    pub(crate) network: Arc<Network>,
    pub(crate) tools: Arc<Web>,
}

impl NodeWeb {
    /// Sets it up. Runs reach public addresses, and none of this host's.
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        let network = if let Some(network) = &options.network {
            Arc::clone(network)
        } else {
            network(Reach::Public)?
        };
        let settings = WebSettings {
            network: Arc::clone(&network),
            robots: options.robots,
            search: options.search.clone(),
            reader: None,
        };
        let tools = Web::new(settings).map_err(|error| Error::Invalid(format!("web: {error}")))?;
        Ok(Self { network, tools })
    }
}
