//! Callback of a flow: the query of the browser's request, and the address of that request.

use sortie_api::{Credential, parameters::Parameters};
use url::Url;

use super::{Error, Pending};
use crate::text;

/// Maximum length of an authorization server's text in an error, in bytes.
const TOLD_BYTES: usize = 200;

/// The browser's request after the redirect from the authorization server.
#[derive(Clone, Copy, Debug)]
pub struct Callback<'a> {
    /// Last segment of the path, unless it is the shared redirect URI.
    pub tag: Option<&'a str>,
    /// Query, without `?`.
    pub query: &'a str,
}

/// Returns the code of a callback after checking its address, `state` and `iss`. A repeated parameter is refused.
pub(super) fn code(pending: &Pending, callback: Callback<'_>) -> Result<Credential, Error> {
    let one = |name: &str| {
        let value = Parameters::of(callback.query.as_bytes()).one(name);
        value.map_err(|_| Error::Refused(format!("the callback names `{name}` twice")))
    };
    if one("state")?.as_deref() != Some(pending.state.expose()) {
        return Err(Error::Refused("the callback belongs to another flow".to_owned()));
    }
    if callback.tag != pending.tag.as_deref() {
        return Err(Error::Refused(
            "the callback arrived at the redirect URI of another authorization server: the code was not used"
                .to_owned(),
        ));
    }
    // RFC 9207: checked before any other parameter is trusted, even for errors.
    check_issuer(pending, one("iss")?.as_deref())?;
    if let Some(error) = one("error")? {
        let words = one("error_description")?.unwrap_or_default();
        let told = text::line(
            &format!("the authorization server says {error} {words}"),
            TOLD_BYTES,
        );
        return Err(Error::NeedsAuthorization(told));
    }
    one("code")?
        .filter(|code| !code.is_empty())
        .map(Credential::new)
        .ok_or_else(|| Error::Refused("the callback brings no code".to_owned()))
}

/// Checks the `iss` of a callback against the server of the flow. If no issuer is known, its origin must be that of the given
/// authorization URL.
fn check_issuer(pending: &Pending, named: Option<&str>) -> Result<(), Error> {
    let Some(named) = named else {
        if pending.names_issuer {
            return Err(Error::Refused(
                "the callback does not name its authorization server".to_owned(),
            ));
        }
        return Ok(());
    };
    let (is_asked, hint) = match &pending.issuer {
        Some(issuer) => (issuer == named, ""),
        None => (
            Url::parse(named).is_ok_and(|url| url.origin().ascii_serialization() == pending.server),
            "; if that server is right, name it in auth.issuer",
        ),
    };
    if is_asked {
        return Ok(());
    }
    let expected = pending.issuer.as_ref().unwrap_or(&pending.server);
    Err(Error::Refused(format!(
        "the callback comes from another authorization server: it names {}, and {expected} was asked{hint}",
        text::line(named, TOLD_BYTES),
    )))
}
