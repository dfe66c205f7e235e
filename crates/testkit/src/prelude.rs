//! The names that nearly every test uses.

pub use std::time::Duration;

pub use anyhow::{Context, Result, ensure};
pub use bytes::Bytes;
pub use http::{HeaderValue, Method};
pub use serde_json::{Value, json};
pub use sortie_api::RunStatus;

pub use crate::{
    Answer, Checked, Client, Database, HostedNode, Node, NodeOptions, Pending, Service, assert_contains,
    assert_ended, assert_has, assert_lacks, both_databases,
    client::{data, kinds},
    every_deployment, rounds, rows, until,
};
