//! A run to record, and its labels.

use std::sync::Arc;

use sortie_api::{Metadata, Micros, OrgId, RunId, ScheduleId, Timestamp, TraceContext, id::KeyId};

use crate::{access::By, licenses::Allowance, money::Payment, nodes::NodeId};

/// A run to record.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// ID of the run, which contains its creation time.
    pub id: RunId,
    /// Organization that owns the run.
    pub org: OrgId,
    /// The client's idempotency key.
    pub idempotency_key: Option<String>,
    /// Definition of the run.
    pub definition: Definition,
    /// Credentials that the stored definition leaves out.
    pub inline: Option<InlineCredentials>,
    /// Receiver of the completion callback.
    pub callback: Option<NewCallback>,
    /// Maximum cost of the run.
    pub max_cost: Micros,
    /// Payment for the run.
    pub payment: Payment,
    /// Time limit in seconds, from the first claim on.
    pub timeout_seconds: u32,
    /// Labels for lists and accounts.
    pub labels: Labels,
    /// Time at which the request was accepted.
    pub created_at: Timestamp,
    /// Trace that the run belongs to.
    pub trace: Option<TraceContext>,
    /// Allowance of the engine's license; none on an engine without a license.
    pub allowance: Option<Allowance>,
}

/// Retention of a run's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Definition, events and output are stored.
    Full,
    /// No content is stored: it stays in the memory of one node.
    None,
}

/// Definition of a run, which the store has or leaves to a node.
#[derive(Clone, Debug)]
pub enum Definition {
    /// The JSON of the resolved `RunRequest`, without the credentials of its inline connections.
    Stored(Arc<str>),
    /// Zero data retention: the definition is in the memory of a node.
    Unretained(Unretained),
}

/// Facts that the store keeps of a run without retention.
#[derive(Clone, Copy, Debug)]
pub struct Unretained {
    /// Node that has the run's content. No other node works on the run.
    pub node: NodeId,
    /// Surcharge on the cost of the run, in percent.
    pub surcharge_percent: u32,
}

impl<T: Into<Arc<str>>> From<T> for Definition {
    fn from(text: T) -> Self {
        Self::Stored(text.into())
    }
}

/// Labels under which a run is listed and accounted.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// Subject that started the run. `None` if neither a credential nor a schedule did.
    pub by: Option<By>,
    /// API key of the console session that started the run.
    pub session_key: Option<KeyId>,
    /// Saved workflow that the run was started from.
    pub workflow: Option<String>,
    /// Schedule that started the run.
    pub schedule: Option<ScheduleId>,
    /// Model of the run.
    pub model: Option<String>,
    /// The client's tags.
    pub tags: Vec<String>,
    /// The client's metadata.
    pub metadata: Metadata,
    /// First line of the description or of the prompt. None for a run without retention.
    pub title: Option<String>,
    /// Text that searches look at, in lower case. It is stored with the definition.
    pub search_text: Option<String>,
    /// Run that this one repeats.
    pub replay_of: Option<RunId>,
}

impl Labels {
    /// The API key that started the run with a request or with a console session: its budget holds for both.
    pub fn key(&self) -> Option<KeyId> {
        self.by.and_then(By::key).or(self.session_key)
    }
}

/// The credentials of a run's inline connections.
#[derive(Clone, Debug)]
pub struct InlineCredentials {
    /// The credentials, sealed.
    pub sealed: Vec<u8>,
    /// Names of the connections with credentials, as a JSON array.
    pub names: String,
}

/// Receiver of a run's completion callback.
#[derive(Clone, Debug)]
pub struct NewCallback {
    /// Host and port of the receiver.
    pub host: String,
    /// The URL and the secret, sealed.
    pub target: Vec<u8>,
}
