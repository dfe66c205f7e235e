//! Names that nearly every module uses.

pub(crate) use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

pub(crate) use sortie_testkit::prelude::*;

pub(crate) use crate::{
    audit::Excuse,
    begin, end,
    world::{Setup, World},
};
