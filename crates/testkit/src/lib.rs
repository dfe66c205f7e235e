//! Tools for the tests and the load program of Sortie: the real binary as a child process, an HTTP client that sees
//! bytes as they arrive, and scripted peers of a node (a model server, a callback receiver).
//!
//! This crate does not depend on the engine: it uses only the HTTP API, signals and files. Tests wait for an event, a
//! log line or the end of a process, never for a fixed time. For a state without a notification, [`until`] polls.

pub mod anthropic;
pub mod application;
pub mod assertions;
pub mod balancer;
pub mod books;
pub mod browser;
pub mod callback;
pub mod client;
pub mod commits;
pub mod database;
pub mod forward_proxy;
pub mod gateway;
pub mod gemini;
pub mod hosted;
pub mod identity;
pub mod mail;
pub mod model;
pub mod node;
mod patience;
pub mod peers;
pub mod pgbouncer;
pub mod ports;
pub mod postgres;
pub mod postgres_server;
mod postgres_statements;
pub mod prelude;
pub mod processes;
pub mod proxy;
pub mod raw;
mod responses;
mod rules;
pub mod s3;
mod script;
mod scripted;
pub mod serve;
pub mod service;
pub mod sqlite_file;
pub mod sse;
pub mod stripe;
mod tables;
pub mod task_server;
pub mod template;
pub mod tls;
mod turn;

pub use balancer::Balancer;
pub use books::{recompute_ledger, recompute_records};
pub use bytes::Bytes;
pub use http;
pub use serde_json;
pub use sortie_api::RunStatus;

pub use anthropic::ScriptedAnthropic;
pub use application::{Application, TokenPair};
pub use browser::Browser;
pub use callback::CallbackReceiver;
pub use client::{Answer, Client, EventStream, Pending};
pub use commits::{CommitFault, CommitProxy, Which};
pub use database::{Checked, Database, Records, rounds};
pub use forward_proxy::ForwardProxy;
pub use gateway::{Gateway, GatewayFault};
pub use gemini::ScriptedGemini;
pub use hosted::HostedNode;
pub use identity::ScriptedProvider;
pub use mail::{MailAnswer, MailSink, ReceivedMail};
pub use model::ScriptedModel;
pub use node::{History, LogOnDrop, Node, NodeOptions};
pub use patience::{PATIENCE, until, until_within};
pub use pgbouncer::{Pgbouncer, PoolMode};
pub use postgres_server::{PostgresServer, Shutdown};
pub use proxy::{Passage, Proxy};
pub use rustix::process::Signal;
pub use scripted::ScriptedServer;
pub use service::Service;
pub use sse::{Message, Parser};
pub use stripe::StripeDouble;
pub use tls::{ServerCertificate, TlsFront};
