//! Names that nearly every module uses.

pub(crate) use sortie_testkit::prelude::*;

pub(crate) use crate::rig::{Rig, options, plain, waiting};
