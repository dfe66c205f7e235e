//! Keys of the configuration, a struct for each section, and the rules between keys. `default.toml` describes them.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use ipnet::IpNet;
use serde::Deserialize;
use sortie_api::SignUpRule;
use sortie_api::{Credential, Micros, Mode, limits::MAX_COST_MICROS, usage::Day};
use sortie_engine::MasterKey;
use sortie_net::Reach;
use sortie_sandbox::{Level, Limits, check_readable};

use super::{
    Error,
    hosted::{PurchaseSection, StripeSection},
    layers::Layers,
    license::LicenseSection,
    network::NetworkSection,
    providers::{ModelSection, ProviderSection},
    sign_in::SignInSection,
    traces::TraceSection,
    values::{
        BaseUrl, DatabaseUrl, TRACE_URL_RULE, days, is_node_name, is_trace_url, level, master_keys, networks,
        origins, seconds, sign_up, some_whole, whole,
    },
    versions::ApiSection,
    web::WebSection,
};
use crate::logging::{self, FILTER_RULE};

/// Upper limit of `max_file_bytes`: S3 accepts no more in parts of 8 MiB.
const MAX_FILE_BYTES: i64 = 10_000 * 8 * 1024 * 1024;
const MAX_U32: i64 = 0xFFFF_FFFF;
const NO_MAX: i64 = i64::MAX;
const MIB: i64 = 1 << 20;

/// Keys that only one deployment mode has.
const OF_ONE_MODE: [(&str, Mode); 13] = [
    ("org_listen", Mode::Hosted),
    ("org_url", Mode::Hosted),
    ("smtp_url", Mode::Hosted),
    ("mail_from", Mode::Hosted),
    ("stripe.secret_key", Mode::Hosted),
    ("stripe.webhook_secrets", Mode::Hosted),
    ("stripe.api_url", Mode::Hosted),
    ("purchases.auto_per_day", Mode::Hosted),
    ("purchases.auto_cents_per_day", Mode::Hosted),
    ("license.signing_key", Mode::Hosted),
    ("license.plans", Mode::Hosted),
    ("license.public_keys", Mode::SelfHosted),
    ("license.machine_id", Mode::SelfHosted),
];

/// Every key with its value in effect.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(super) org_listen: Option<SocketAddr>,
    pub(crate) data_dir: PathBuf,
    pub(crate) mode: Mode,
    pub(crate) database_url: DatabaseUrl,
    #[serde(deserialize_with = "whole::<_, _, 1, 100>")]
    pub(crate) database_connections: u32,
    pub(crate) blob_url: Option<String>,
    #[serde(deserialize_with = "whole::<_, _, 1, MAX_FILE_BYTES>")]
    pub(crate) max_file_bytes: u64,
    pub(crate) node_name: Option<String>,
    pub(crate) advertise_url: Option<BaseUrl>,
    pub(super) org_url: Option<BaseUrl>,
    pub(crate) node_url: Option<BaseUrl>,
    pub(crate) console: bool,
    pub(crate) console_dir: Option<PathBuf>,
    pub(crate) console_trace_url: Option<String>,
    #[serde(deserialize_with = "sign_up")]
    pub(super) sign_up: SignUpRule,
    pub(super) smtp_url: Option<Credential>,
    pub(super) mail_from: Option<String>,
    /// Keys that credentials are sealed with, the newest first; `None` for the key of the data folder.
    #[serde(rename = "master_key", default, deserialize_with = "master_keys")]
    pub(crate) master_keys: Option<Vec<MasterKey>>,
    #[serde(deserialize_with = "whole::<_, _, 1, MAX_U32>")]
    pub(crate) concurrency: u32,
    #[serde(default, deserialize_with = "some_whole::<_, _, 1, MAX_U32>")]
    pub(crate) organization_concurrency: Option<u32>,
    #[serde(default, deserialize_with = "some_whole::<_, _, 1, NO_MAX>")]
    pub(crate) organization_storage_bytes: Option<u64>,
    #[serde(deserialize_with = "whole::<_, _, 0, NO_MAX>")]
    pub(crate) compute_micros_per_second: Micros,
    #[serde(
        rename = "default_max_cost_micros",
        deserialize_with = "whole::<_, _, 1, MAX_COST_MICROS>"
    )]
    pub(crate) default_max_cost: Micros,
    #[serde(deserialize_with = "whole::<_, _, 1, MAX_U32>")]
    pub(crate) rate_limit_per_minute: u32,
    #[serde(deserialize_with = "whole::<_, _, 1, MAX_U32>")]
    pub(crate) anonymous_rate_limit_per_minute: u32,
    #[serde(deserialize_with = "networks")]
    pub(crate) trusted_proxies: Vec<IpNet>,
    #[serde(deserialize_with = "origins")]
    pub(crate) allowed_origins: Vec<String>,
    #[serde(rename = "drain_seconds", deserialize_with = "seconds::<_, 0, 3_600>")]
    pub(crate) drain: Duration,
    #[serde(
        rename = "shutdown_grace_seconds",
        deserialize_with = "seconds::<_, 0, 86_400>"
    )]
    pub(crate) shutdown_grace: Duration,
    /// Time for which finished runs are kept; `None` for ever.
    #[serde(rename = "retention_days", deserialize_with = "days")]
    pub(crate) retention: Option<Duration>,
    pub(crate) retention_clock_checked: Option<Day>,
    pub(super) default_model: Option<String>,
    #[serde(rename = "model_silence_seconds", deserialize_with = "seconds::<_, 1, 3_600>")]
    pub(super) model_silence: Duration,
    private_addresses: Option<Vec<PrivateFeature>>,
    #[serde(default)]
    pub(super) providers: BTreeMap<String, ProviderSection>,
    #[serde(default, rename = "models")]
    pub(super) model_sections: BTreeMap<String, ModelSection>,
    #[serde(default, rename = "sign_in")]
    pub(super) sign_in_section: SignInSection,
    #[serde(deserialize_with = "whole::<_, _, 0, 1_000>")]
    pub(crate) surcharge_percent: u32,
    pub(crate) zero_data_retention: MemorySection,
    pub(super) network: NetworkSection,
    pub(crate) sandbox: SandboxSection,
    pub(crate) web: WebSection,
    pub(super) api: ApiSection,
    pub(crate) license: LicenseSection,
    pub(crate) log: LogSection,
    pub(super) purchases: PurchaseSection,
    pub(super) stripe: StripeSection,
    #[serde(rename = "traces")]
    pub(super) trace_section: TraceSection,
}

/// Feature that may reach private networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PrivateFeature {
    Callbacks,
    Connections,
}

/// Keys of `[zero_data_retention]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemorySection {
    #[serde(deserialize_with = "whole::<_, _, MIB, NO_MAX>")]
    pub(crate) memory_bytes: usize,
    pub(crate) work_dir: Option<PathBuf>,
}

/// Keys of `[sandbox]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SandboxSection {
    #[serde(deserialize_with = "level")]
    pub(crate) minimum: Level,
    i_understand_commands_run_unsandboxed: bool,
    pub(crate) readable_paths: Vec<PathBuf>,
    #[serde(with = "LimitSection")]
    pub(crate) limits: Limits,
}

/// Keys of `[sandbox.limits]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, remote = "Limits")]
struct LimitSection {
    #[serde(deserialize_with = "whole::<_, _, 8, 100_000>")]
    processes: u32,
    #[serde(deserialize_with = "whole::<_, _, 32, 1_000_000>")]
    open_files: u32,
    #[serde(deserialize_with = "whole::<_, _, MIB, NO_MAX>")]
    file_bytes: u64,
    #[serde(deserialize_with = "whole::<_, _, { 32 * MIB }, NO_MAX>")]
    memory_bytes: u64,
    #[serde(deserialize_with = "whole::<_, _, MIB, NO_MAX>")]
    disk_bytes: u64,
    #[serde(deserialize_with = "whole::<_, _, 16, NO_MAX>")]
    disk_entries: u64,
    #[serde(deserialize_with = "whole::<_, _, MIB, NO_MAX>")]
    tmp_bytes: u64,
}

/// Keys of `[log]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogSection {
    pub(crate) format: LogFormat,
    pub(crate) filter: String,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// A JSON object a line.
    Json,
}

impl Settings {
    /// Returns the networks that a feature may reach. Default: all on a self-hosted engine, public ones on a hosted one.
    pub(crate) fn reach(&self, feature: PrivateFeature) -> Reach {
        let is_private = match &self.private_addresses {
            Some(features) => features.contains(&feature),
            None => self.mode == Mode::SelfHosted,
        };
        if is_private { Reach::Private } else { Reach::Public }
    }

    /// Checks rules that the types of the keys do not express.
    pub(super) fn check(&self, layers: &Layers) -> Result<(), Error> {
        for (key, mode) in OF_ONE_MODE {
            if self.mode != mode && layers.is_given(key) {
                return Err(layers.wrong(key, &format!("needs mode = {:?}", mode.as_str())));
            }
        }
        let is_bucket_or_folder = |url: &String| url.starts_with("s3://") || url.starts_with("file:");
        let is_machine_id =
            |id: &String| id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        for (key, is_right, rule) in [
            (
                "blob_url",
                self.blob_url.as_ref().is_none_or(is_bucket_or_folder),
                "must begin with `file:` or `s3://`",
            ),
            (
                "node_name",
                self.node_name.as_deref().is_none_or(is_node_name),
                "must be 1 to 100 letters, digits, dots, dashes or underscores",
            ),
            (
                "console_trace_url",
                self.console_trace_url.as_deref().is_none_or(is_trace_url),
                TRACE_URL_RULE,
            ),
            (
                "license.machine_id",
                self.license.machine_id.as_ref().is_none_or(is_machine_id),
                "must be 32 hexadecimal digits in lower case",
            ),
            (
                "log.filter",
                logging::filter(&self.log.filter).is_some(),
                FILTER_RULE,
            ),
        ] {
            if !is_right {
                return Err(layers.wrong(key, rule));
            }
        }
        self.check_sandbox(layers)
    }

    fn check_sandbox(&self, layers: &Layers) -> Result<(), Error> {
        let (key, confirmation) = ("sandbox.minimum", "sandbox.i_understand_commands_run_unsandboxed");
        let (minimum, limits) = (self.sandbox.minimum, self.sandbox.limits);
        let is_confirmed = self.sandbox.i_understand_commands_run_unsandboxed;
        if minimum == Level::None && !is_confirmed {
            let rule = format!(
                "`none` lets runs do whatever this user can; accept that by {confirmation} = true or the flag \
                 --i-understand-commands-run-unsandboxed"
            );
            return Err(layers.wrong(key, &rule));
        }
        if minimum != Level::None && is_confirmed {
            let rule = format!(
                "is true, but {key} is `{}`; set {key} = \"none\", or take the confirmation back",
                minimum.as_str()
            );
            return Err(layers.wrong(confirmation, &rule));
        }
        for path in &self.sandbox.readable_paths {
            check_readable(path, &self.data_dir).map_err(|reason| {
                let rule = format!("cannot show {} to commands: {reason}", path.display());
                layers.wrong("sandbox.readable_paths", &rule)
            })?;
        }
        if limits.file_bytes > limits.disk_bytes {
            return Err(layers.wrong(
                "sandbox.limits.file_bytes",
                "is larger than sandbox.limits.disk_bytes, so that no file could ever reach it; lower it",
            ));
        }
        Ok(())
    }
}
