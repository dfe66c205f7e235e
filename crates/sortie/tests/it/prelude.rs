//! Names that nearly every module uses.

pub(crate) use sortie_testkit::prelude::*;

pub(crate) use crate::{
    kit::{
        at_work, commands, exits, finals, json_said, of_kind, plain, said, settled, statuses, text, waiting,
    },
    node, node_with, started, started_with,
};
