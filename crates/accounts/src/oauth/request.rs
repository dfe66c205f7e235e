//! Authorization request of a client: parameters and their rules.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{
    error::{OauthError, OauthErrorCode},
    parameters::{Parameters, Repeated},
};

/// Maximum length of the query of an authorization request, in bytes.
pub(crate) const LONGEST_QUERY: usize = 6_144;

/// Highest role that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Works with runs.
    Member,
    /// Also changes connections and budgets, if the person is an admin.
    Admin,
}

impl Scope {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Admin => "admin",
        }
    }

    /// Parses a list of scopes: the highest one counts, and a missing list means `member`.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, OauthError> {
        let mut scope = Self::Member;
        for name in text
            .unwrap_or_default()
            .split(' ')
            .filter(|name| !name.is_empty())
        {
            match name {
                "member" => {}
                "admin" => scope = Self::Admin,
                _ => return Err(OauthErrorCode::InvalidScope.because("scope: must be member or admin")),
            }
        }
        Ok(scope)
    }
}

/// Parameters of an authorization request other than the client and the redirect URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Scope that the client asks for.
    pub(crate) scope: Scope,
    /// PKCE challenge.
    pub(crate) challenge: String,
}

/// Reads the parameters of an authorization request other than the client and the redirect URI. `resources` are those
/// that the server issues tokens for.
pub(crate) fn asked(parameters: Parameters<'_>, resources: &[String]) -> Result<Asked, OauthError> {
    let one = |name: &str| one(parameters, name);
    match one("response_type")?.as_deref() {
        Some("code") => {}
        Some(_) => {
            return Err(OauthErrorCode::UnsupportedResponseType.because("response_type: must be code"));
        }
        None => return Err(missing("response_type")),
    }
    for unsupported in ["request", "request_uri"] {
        if one(unsupported)?.is_some() {
            return Err(invalid(format!("{unsupported}: is not supported")));
        }
    }
    if one("response_mode")?.is_some_and(|mode| mode != "query") {
        return Err(invalid("response_mode: must be query"));
    }
    // The state is returned unchanged; it is read here so that a repeated one is refused.
    one("state")?;
    let scope = Scope::parse(one("scope")?.as_deref())?;
    let challenge = one("code_challenge")?.ok_or_else(|| missing("code_challenge"))?;
    if one("code_challenge_method")?.as_deref() != Some("S256") {
        return Err(invalid("code_challenge_method: must be S256"));
    }
    if challenge.len() != 43 || !challenge.bytes().all(is_base64url) {
        return Err(invalid("code_challenge: must be 43 characters of base64url"));
    }
    check_resource(parameters, resources)?;
    Ok(Asked {
        scope,
        challenge: challenge.into_owned(),
    })
}

/// Checks every `resource` of a request (RFC 8707): only the resources of the server are valid, with or without a final slash.
pub(crate) fn check_resource(parameters: Parameters<'_>, resources: &[String]) -> Result<(), OauthError> {
    let is_ours = |named: Cow<'_, str>| {
        let named = named.strip_suffix('/').unwrap_or(&named);
        resources.iter().any(|resource| resource == named)
    };
    if parameters.all("resource").all(is_ours) {
        Ok(())
    } else {
        let rule = format!("resource: must be {}", resources.join(" or "));
        Err(OauthErrorCode::InvalidTarget.because(rule))
    }
}

/// Returns the value of a parameter that must not be repeated.
pub(crate) fn one<'a>(parameters: Parameters<'a>, name: &str) -> Result<Option<Cow<'a, str>>, OauthError> {
    let repeated = |Repeated| invalid(format!("{name}: must be sent once"));
    parameters.one(name).map_err(repeated)
}

/// Error for a missing parameter.
pub(crate) fn missing(name: &str) -> OauthError {
    invalid(format!("{name}: required"))
}

fn invalid(description: impl Into<String>) -> OauthError {
    OauthErrorCode::InvalidRequest.because(description)
}

const fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sortie_testkit::rows;

    use super::*;

    const RESOURCE: &str = "https://engine.example";
    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    fn read(query: &str) -> Result<Asked, OauthError> {
        asked(
            Parameters::without_empty(query.as_bytes()),
            &[RESOURCE.to_owned()],
        )
    }

    fn right() -> String {
        format!("response_type=code&code_challenge={CHALLENGE}&code_challenge_method=S256")
    }

    #[test]
    fn a_request_asks_for_a_scope_with_a_challenge() {
        for (more, scope) in rows! {
            "", Scope::Member;
            "&scope=member", Scope::Member;
            "&scope=admin", Scope::Admin;
            "&scope=member+admin", Scope::Admin;
            "&scope=", Scope::Member;
            "&resource=https%3A%2F%2Fengine.example", Scope::Member;
            "&resource=https://engine.example/&resource=https://engine.example", Scope::Member;
            "&state=x&nonce=1&nonce=2&unknown=%ff&response_mode=query", Scope::Member;
        } {
            let asked =
                read(&format!("{}{more}", right())).unwrap_or_else(|error| panic!("{more}: {error:?}"));
            assert_eq!(
                (asked.scope, asked.challenge.as_str()),
                (scope, CHALLENGE),
                "{more}"
            );
        }
    }

    #[test]
    fn every_broken_rule_has_its_error() {
        let right = right();
        for (query, code) in rows! {
            right.replace("response_type=code&", ""), "invalid_request";
            right.replace("=code&", "=token&"), "unsupported_response_type";
            format!("{right}&response_type=code"), "invalid_request";
            right.replace("S256", "plain"), "invalid_request";
            right.replace("&code_challenge_method=S256", ""), "invalid_request";
            right.replace(CHALLENGE, ""), "invalid_request";
            right.replace(CHALLENGE, &CHALLENGE[1..]), "invalid_request";
            right.replace("cM", "c%3D"), "invalid_request";
            format!("{right}&code_challenge={CHALLENGE}"), "invalid_request";
            format!("{right}&state=a&state=b"), "invalid_request";
            format!("{right}&scope=owner"), "invalid_scope";
            format!("{right}&scope=member&scope=admin"), "invalid_request";
            format!("{right}&resource=https://other.example"), "invalid_target";
            format!("{right}&resource=https://engine.example//"), "invalid_target";
            format!("{right}&resource=https://engine.example%23x"), "invalid_target";
            format!("{right}&resource=https://engine.example&resource=x"), "invalid_target";
            format!("{right}&request=x"), "invalid_request";
            format!("{right}&request_uri=https://a.example"), "invalid_request";
            format!("{right}&response_mode=fragment"), "invalid_request";
        } {
            let error = read(&query).expect_err(&query);
            assert_eq!(error.code.as_str(), code, "{query}: {}", error.description);
        }
    }

    proptest! {
        #[test]
        fn no_query_makes_it_panic_and_only_s256_is_taken(more in "\\PC{0,60}") {
            let query = format!("response_type=code&code_challenge={CHALLENGE}&{more}");
            if read(&query).is_ok() {
                let parameters = Parameters::without_empty(query.as_bytes());
                prop_assert_eq!(parameters.one("code_challenge_method"), Ok(Some("S256".into())));
            }
        }
    }
}
