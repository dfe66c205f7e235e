//! Names that nearly every module uses.

pub(crate) use sortie_api::Role;
pub(crate) use sortie_testkit::prelude::*;

pub(crate) use crate::{
    browser::{Browser, form_token},
    operator::operator,
    organizations::{get, send},
    rig::{AT, Rig, Signed},
};
