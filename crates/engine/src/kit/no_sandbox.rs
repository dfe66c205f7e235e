//! A backend for hosts that cannot confine commands, unless the operator allows less confinement.

use futures_util::future::BoxFuture;
use sortie_sandbox::{Backend, Capabilities, Enforcement, Error, Level, Sandbox, Spec, Tenancy, Workdir};

/// A sandbox backend that cannot open a sandbox: each attempt fails with the reason.
pub(crate) struct NoSandbox {
    capabilities: Capabilities,
    reason: String,
}

impl NoSandbox {
    pub(crate) fn new(reason: String) -> Self {
        let capabilities = Capabilities {
            level: Level::None,
            memory: Enforcement::Soft,
            disk: Enforcement::Soft,
            tenancy: Tenancy::Single,
            egress: false,
            missing: vec![reason.clone()],
        };
        Self { capabilities, reason }
    }
}

impl Backend for NoSandbox {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn open<'a>(&'a self, _: &'a Workdir, _: Spec) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
        Box::pin(async {
            Err(Error::Unavailable {
                reason: self.reason.clone(),
                hint: "Run without commands by shell: false".to_owned(),
            })
        })
    }
}
