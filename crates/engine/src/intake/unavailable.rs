//! Parts of the contract that this version does not serve yet. A request that needs one is refused with the field named:
//! accepting and ignoring it would be worse. Their forms are checked first, so that a wrong form is told as such.

use sortie_api::{RunRequest, limits};
use url::Url;

use super::broken;
use crate::Error;

const NOT_YET: &str = "not available in this version";

pub(super) fn zero_data_retention(request: &RunRequest) -> Result<(), Error> {
    if request.zero_data_retention == Some(true) {
        return Err(broken("zero_data_retention", NOT_YET));
    }
    Ok(())
}

pub(super) fn callback(request: &RunRequest) -> Result<(), Error> {
    let Some(callback) = &request.callback else {
        return Ok(());
    };
    if callback.url.chars().count() > limits::CALLBACK_URL_CHARS {
        return Err(broken(
            "callback.url",
            format!("must be at most {} characters", limits::CALLBACK_URL_CHARS),
        ));
    }
    let url = Url::parse(&callback.url).map_err(|error| broken("callback.url", error))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(broken("callback.url", "must be http or https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(broken("callback.url", "must not contain user info"));
    }
    if !(1..=limits::CALLBACK_SECRET_CHARS).contains(&callback.secret.chars().count()) {
        return Err(broken(
            "callback.secret",
            format!("must be 1 to {} characters", limits::CALLBACK_SECRET_CHARS),
        ));
    }
    Err(broken("callback", NOT_YET))
}
