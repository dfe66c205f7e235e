//! Parts of the contract that this version does not serve yet. A request that needs one is refused with the field named:
//! accepting and ignoring it would be worse. Their forms are checked first, so that a wrong form is told as such.

use sortie_api::RunRequest;

use super::{broken, text};
use crate::Error;

pub(super) fn workflow(request: &RunRequest) -> Result<(), Error> {
    let Some(name) = &request.workflow else {
        return Ok(());
    };
    text::name("workflow", name)?;
    Err(broken("workflow", format!("no workflow {name:?}")))
}
