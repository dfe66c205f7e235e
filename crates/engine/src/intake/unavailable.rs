//! Parts of the contract that this version does not serve yet. A request that needs one is refused with the field named:
//! accepting and ignoring it would be worse. Their forms are checked first, so that a wrong form is told as such.

use sortie_api::RunRequest;

use super::broken;
use crate::Error;

const NOT_YET: &str = "not available in this version";

pub(super) fn zero_data_retention(request: &RunRequest) -> Result<(), Error> {
    if request.zero_data_retention == Some(true) {
        return Err(broken("zero_data_retention", NOT_YET));
    }
    Ok(())
}
