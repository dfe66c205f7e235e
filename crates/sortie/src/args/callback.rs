//! Flags for the receiver of a callback.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct CallbackArgs {
    /// URL that gets a signed request when a run is final
    #[arg(long = "callback", value_name = "URL", requires = "callback_secret_env")]
    pub(crate) callback_url: Option<String>,
    /// Read the key of the callback's signature from this variable
    #[arg(long, value_name = "VARIABLE", requires = "callback_url")]
    pub(crate) callback_secret_env: Option<String>,
}
