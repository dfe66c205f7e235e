//! Refusals of targets.

/// Refusal of a target. The text is for the caller, the model included.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The target has an invalid form.
    #[error("{0}")]
    Form(&'static str),
    /// The port is not 80 or 443.
    #[error("port {port} may not be used: only 80 and 443")]
    Port {
        /// The port.
        port: u16,
    },
    /// The host is outside of the run's domains.
    #[error("{host} is not one of the domains that this run may reach")]
    Domain {
        /// The host.
        host: String,
    },
    /// The host is, or resolves to, a forbidden address.
    #[error("{host} is not a public address")]
    Address {
        /// The host.
        host: String,
    },
    /// The name could not be resolved.
    #[error("{host} could not be resolved: {why}")]
    Unknown {
        /// The host.
        host: String,
        /// Message of the resolver.
        why: String,
    },
    /// The name could not be resolved, so it cannot be checked before a proxy receives it.
    #[error(
        "cannot resolve {host} ({why}), so it cannot be checked before the proxy gets it: the operator can set \
         network.proxy_resolves if the proxy refuses private addresses"
    )]
    Unjudged {
        /// The host.
        host: String,
        /// Message of the resolver.
        why: String,
    },
}
