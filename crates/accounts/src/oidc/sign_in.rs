//! Sign-in of a person with an identity provider: the request, the callback, and the match with an account.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sortie_api::{Credential, ErrorCode, Refusal, Role, UserId};
use sortie_base::random;
use sortie_store::{
    access::Actor,
    people::{Account, Identity, NewPerson, ProvenIdentity, SignIn},
};
use url::Url;

use super::{
    IdentityProvider, Provider,
    failure::{Failure, Fetched},
    provider::{Code, is_error_name},
    token::{Claims, Expected, SignedToken},
};
use crate::{
    Accounts, Client, LoggedIn, Parts, Result,
    attempts::{HOUR, Limit},
    email::EmailAddress,
    people::{Method, SignInOutcome, rules},
};
use sortie_api::SignUpRule;

/// Refused sign-ins per hour from one network, at all providers together.
const OF_ONE_NETWORK: u32 = 100;

/// Request to a provider.
#[derive(Clone, Debug)]
pub struct OidcRequest {
    /// State of the sign-in. The browser keeps it sealed until the callback.
    pub flow: OidcFlow,
    url: Url,
}

/// Sign-in in progress at a provider.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OidcFlow {
    provider: String,
    nonce: String,
    verifier: String,
    /// Path for the redirect after the sign-in.
    pub back: String,
}

/// Answer of a provider: the query of the callback.
#[derive(Clone, Copy, Debug)]
pub struct OidcAnswer<'a> {
    /// Authorization code.
    pub code: Option<&'a str>,
    /// Issuer of the answer (RFC 9207).
    pub issuer: Option<&'a str>,
    /// Error that the provider returned instead of a code.
    pub error: Option<&'a str>,
}

/// Browser that returns from a provider.
#[derive(Clone, Debug)]
pub struct OidcVisitor<'a> {
    /// Client of the session.
    pub client: Client,
    /// Author of changes, for the audit log.
    pub actor: &'a Actor,
    /// Token of an invitation that the person follows.
    pub invitation: Option<Credential>,
}

/// Outcome of a sign-in at a provider.
#[derive(Clone, Debug)]
pub enum OidcSignIn {
    /// The person is signed in.
    SignedIn(Box<LoggedIn>),
    /// The person is known, and a code of the second factor is missing. The text identifies the person: seal it.
    SecondFactor(String),
}

/// Person with all proofs except the second factor.
#[derive(Serialize, Deserialize)]
struct HalfSignedIn {
    user: UserId,
    issuer: String,
    subject: String,
    /// Address of the account to link the identity to; absent for a known identity.
    email_key: Option<String>,
    /// Role that the provider grants the person.
    role: Option<Role>,
}

impl OidcRequest {
    /// Address of the authorization request. The callback returns `state`.
    pub fn url(mut self, state: &str) -> String {
        self.url.query_pairs_mut().append_pair("state", state);
        self.url.into()
    }
}

impl OidcFlow {
    /// Text of the flow, to be sealed.
    pub fn to_text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(Refusal::internal)
    }

    /// Parses a flow of the provider `name`. Returns `None` if the flow began at another provider.
    pub fn parse(text: &str, name: &str) -> Option<Self> {
        let flow: Self = serde_json::from_str(text).ok()?;
        (flow.provider == name).then_some(flow)
    }
}

impl Accounts {
    /// Identity providers that people sign in with.
    pub fn providers(&self) -> impl Iterator<Item = &IdentityProvider> {
        self.0.providers.iter().map(|provider| &provider.settings)
    }

    /// Begins a sign-in that redirects to `back` at the end. Returns `NotFound` if the provider is not configured.
    pub async fn begin_oidc(&self, name: &str, back: &str) -> Result<OidcRequest> {
        let begun = self.0.begin_oidc(name, back).await;
        if let Err(error) = &begun {
            self.0.metrics.sign_in_failed(Method::Provider, error);
        }
        begun
    }

    /// Finishes a sign-in with the answer of the provider. Returns `Forbidden` if the answer or the person is refused,
    /// `Unavailable` if the provider does not answer, and `RateLimited` before any request to the provider.
    pub async fn finish_oidc(
        &self,
        flow: &OidcFlow,
        answer: &OidcAnswer<'_>,
        visitor: &OidcVisitor<'_>,
    ) -> Result<OidcSignIn> {
        let parts = &self.0;
        let done = parts.finish_oidc(flow, answer, visitor).await;
        match &done {
            Ok(OidcSignIn::SignedIn(_)) => parts.metrics.sign_in(Method::Provider, SignInOutcome::Succeeded),
            Ok(OidcSignIn::SecondFactor(_)) => {
                parts
                    .metrics
                    .sign_in(Method::Provider, SignInOutcome::SecondFactor);
            }
            Err(error) => parts.metrics.sign_in_failed(Method::Provider, error),
        }
        done
    }

    /// Finishes a sign-in at a provider with the code of the second factor. Returns `SecondFactorRequired` if the code is wrong.
    pub async fn finish_oidc_code(
        &self,
        half_signed_in: &str,
        code: &Credential,
        visitor: &OidcVisitor<'_>,
    ) -> Result<LoggedIn> {
        let done = self.0.second_half(half_signed_in, code, visitor).await;
        match &done {
            Ok(_) => self.0.metrics.sign_in(Method::Provider, SignInOutcome::Succeeded),
            Err(error) => self.0.metrics.sign_in_failed(Method::Provider, error),
        }
        done
    }
}

impl Parts {
    async fn begin_oidc(&self, name: &str, back: &str) -> Result<OidcRequest> {
        let provider = self.provider(name)?;
        let settings = &provider.settings;
        let metadata = provider.metadata(&self.options.clock).await;
        let metadata = metadata.map_err(|failure| failed(settings, &failure))?;
        let token = || random().map(|bytes: [u8; 32]| BASE64_URL_SAFE_NO_PAD.encode(bytes));
        let flow = OidcFlow {
            provider: name.to_owned(),
            nonce: token()?,
            verifier: token()?,
            back: back.to_owned(),
        };
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&flow.verifier));
        let scopes = ["openid", "email", "profile"]
            .into_iter()
            .chain(settings.scopes.iter().map(String::as_str));
        let scope = scopes.collect::<Vec<_>>().join(" ");
        let mut url = metadata.authorization_endpoint;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &settings.client_id)
            .append_pair("redirect_uri", &self.redirect_uri(settings))
            .append_pair("scope", &scope)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("nonce", &flow.nonce);
        Ok(OidcRequest { flow, url })
    }

    async fn finish_oidc(
        &self,
        flow: &OidcFlow,
        answer: &OidcAnswer<'_>,
        visitor: &OidcVisitor<'_>,
    ) -> Result<OidcSignIn> {
        let settings = &self.provider(&flow.provider)?.settings;
        let network = visitor.client.network().to_string();
        let limit = Limit {
            action: "login provider",
            subject: &network,
            most: OF_ONE_NETWORK,
            window: HOUR,
        };
        let counted = self.attempts(&[limit]).await?;
        let done = match self.claims(flow, answer).await {
            Ok(claims) => self.admit(settings, &claims, visitor).await,
            Err(failure) => Err(failed(settings, &failure)),
        };
        if done
            .as_ref()
            .err()
            .is_none_or(|error| error.code == ErrorCode::Unavailable)
        {
            self.refund(counted).await?;
        }
        done
    }

    fn provider(&self, name: &str) -> Result<&Provider> {
        let found = self
            .providers
            .iter()
            .find(|provider| provider.settings.name == name);
        found.ok_or(Refusal::not_found())
    }

    fn redirect_uri(&self, settings: &IdentityProvider) -> String {
        format!("{}{}", self.options.org_url, settings.callback_path())
    }

    /// Exchanges the answer of a provider for the claims of the person, and checks both.
    async fn claims(&self, flow: &OidcFlow, answer: &OidcAnswer<'_>) -> Fetched<Claims> {
        let unknown = |_| Failure::refused("the provider is not configured");
        let provider = self.provider(&flow.provider).map_err(unknown)?;
        let (settings, clock) = (&provider.settings, &self.options.clock);
        let metadata = provider.metadata(clock).await?;
        let is_own = match answer.issuer {
            Some(issuer) => issuer == settings.issuer,
            None => !metadata.names_issuer,
        };
        if !is_own {
            return Err(Failure::refused("the answer comes from another issuer"));
        }
        if let Some(error) = answer.error {
            let name = if is_error_name(error) { error } else { "an error" };
            return Err(Failure::Refused(format!("the answer is {name}")));
        }
        let code = Code {
            text: answer.code.ok_or(Failure::refused("the answer has no code"))?,
            verifier: &flow.verifier,
            redirect_uri: &self.redirect_uri(settings),
        };
        let tokens = provider.exchange(&metadata, code).await?;
        let token = SignedToken::parse(tokens.id_token.expose()).map_err(Failure::refused)?;
        let mut claims = provider.verified(&token, clock).await?;
        let expected = Expected {
            issuer: &settings.issuer,
            client_id: &settings.client_id,
            nonce: &flow.nonce,
            now: clock.now().as_micros() / 1_000_000,
        };
        let subject = claims.check(&expected).map_err(Failure::refused)?.to_owned();
        let role = settings.roles.as_ref().and_then(|rule| rule.claim.as_deref());
        let has_all = claims.has("email") && claims.has_proof() && role.is_none_or(|name| claims.has(name));
        if let (false, Some(endpoint), Some(access)) =
            (has_all, &metadata.userinfo_endpoint, &tokens.access_token)
        {
            claims.complete(provider.userinfo(endpoint, access, &subject).await?);
        }
        Ok(claims)
    }

    /// Signs in the person that the claims identify, or creates the account. Two concurrent sign-ins may both find no account:
    /// the second one searches again.
    async fn admit(
        &self,
        settings: &IdentityProvider,
        claims: &Claims,
        visitor: &OidcVisitor<'_>,
    ) -> Result<OidcSignIn> {
        let first = self.admit_once(settings, claims, visitor).await;
        if first
            .as_ref()
            .is_err_and(|error| error.code == ErrorCode::Conflict)
        {
            return self.admit_once(settings, claims, visitor).await;
        }
        first
    }

    async fn admit_once(
        &self,
        settings: &IdentityProvider,
        claims: &Claims,
        visitor: &OidcVisitor<'_>,
    ) -> Result<OidcSignIn> {
        let identity = Identity {
            issuer: settings.issuer.clone(),
            subject: claims.text("sub").unwrap_or_default().to_owned(),
        };
        let known = self.store.find_identity(&identity).await?;
        let user = known.as_ref().map(|account| account.person.id);
        let role = self.claimed_role(settings, claims, (user, visitor.actor)).await?;
        if let Some(account) = known {
            let proven = ProvenIdentity::Known(identity);
            return self.enter(account, (proven, role), visitor).await;
        }
        let email = trusted_address(settings, claims)?;
        if let Some(account) = self.store.find_account(&email.key).await? {
            // An account with an unverified address may belong to a stranger who knows its password.
            if account.person.email_verified_at.is_none() && !account.password.is_empty() {
                return Err(ErrorCode::Forbidden.because(
                    "this address has an account that has not verified it: set a new password with \"Forgot the \
                     password?\" first, which verifies it"));
            }
            let linked = ProvenIdentity::Linked {
                identity,
                email_key: email.key,
            };
            return self.enter(account, (linked, role), visitor).await;
        }
        if role.is_none() {
            self.may_sign_up(&email, visitor.invitation.clone()).await?;
        }
        let person = self.newcomer(email, claims)?;
        self.sign_up_by_identity((identity, role), person, visitor).await
    }

    /// Checks that the sign-up rule admits the person.
    async fn may_sign_up(&self, email: &EmailAddress, invitation: Option<Credential>) -> Result<()> {
        match self.options.sign_up {
            SignUpRule::Open | SignUpRule::VerifyFirst => Ok(()),
            SignUpRule::Invited => self.check_invitation(email, invitation).await,
            SignUpRule::Closed => Err(crate::people::sign_up::closed()),
        }
    }

    /// Creates the account of a new person, without a password.
    fn newcomer(&self, email: EmailAddress, claims: &Claims) -> Result<NewPerson> {
        let now = self.options.clock.now();
        let (local, _) = email.text.split_once('@').unwrap_or((&email.text, ""));
        let name = rules::name(claims.text("name").unwrap_or_default()).or_else(|_| rules::name(local))?;
        Ok(NewPerson {
            id: UserId::new(now, random()?),
            email: email.text,
            email_key: email.key,
            name,
            // No password matches an empty hash.
            password: String::new(),
            created_at: now,
        })
    }

    async fn sign_up_by_identity(
        &self,
        (identity, role): (Identity, Option<Role>),
        person: NewPerson,
        visitor: &OidcVisitor<'_>,
    ) -> Result<OidcSignIn> {
        let id = person.id;
        let given = self.given(id, role, visitor.actor).await?;
        let (session, token) = self.new_session(id, &visitor.client)?;
        self.store
            .sign_up_with_identity(person, identity, session, given)
            .await?;
        tracing::info!(user.id = %id, "created an account for an identity of a provider");
        Ok(OidcSignIn::SignedIn(Box::new(LoggedIn {
            token: Credential::new(token.expose()),
            person: self.store.account(id).await?.person,
            organizations: Vec::new(),
        })))
    }

    /// Begins the session of a person, or asks for the second factor.
    async fn enter(
        &self,
        account: Account,
        (proven, role): (ProvenIdentity, Option<Role>),
        visitor: &OidcVisitor<'_>,
    ) -> Result<OidcSignIn> {
        refuse_disabled(&account)?;
        let user = account.person.id;
        if account.person.second_factor_since.is_some() {
            return HalfSignedIn::of(user, proven, role).map(OidcSignIn::SecondFactor);
        }
        let with = SignIn {
            identity: Some(proven),
            role: self.given(user, role, visitor.actor).await?,
            ..SignIn::default()
        };
        let logged_in = self.begin(account, &visitor.client, with).await?;
        Ok(OidcSignIn::SignedIn(Box::new(logged_in)))
    }

    async fn second_half(
        &self,
        text: &str,
        code: &Credential,
        visitor: &OidcVisitor<'_>,
    ) -> Result<LoggedIn> {
        let half: HalfSignedIn = serde_json::from_str(text).map_err(Refusal::internal)?;
        let account = self.store.account(half.user).await?;
        refuse_disabled(&account)?;
        let factor = self.factor(&account, code).await?;
        let with = SignIn {
            role: self.given(half.user, half.role, visitor.actor).await?,
            identity: Some(half.into()),
            factor: Some(factor),
            ..SignIn::default()
        };
        self.begin(account, &visitor.client, with).await
    }
}

impl HalfSignedIn {
    fn of(user: UserId, proven: ProvenIdentity, role: Option<Role>) -> Result<String> {
        let (Identity { issuer, subject }, email_key) = match proven {
            ProvenIdentity::Known(identity) => (identity, None),
            ProvenIdentity::Linked { identity, email_key } => (identity, Some(email_key)),
        };
        let half = Self {
            user,
            issuer,
            subject,
            email_key,
            role,
        };
        serde_json::to_string(&half).map_err(Refusal::internal)
    }
}

impl From<HalfSignedIn> for ProvenIdentity {
    fn from(half: HalfSignedIn) -> Self {
        let identity = Identity {
            issuer: half.issuer,
            subject: half.subject,
        };
        match half.email_key {
            None => Self::Known(identity),
            Some(email_key) => Self::Linked { identity, email_key },
        }
    }
}

/// Logs the cause of a failure. Returns the error for the person.
fn failed(settings: &IdentityProvider, failure: &Failure) -> Refusal {
    let label = &settings.label;
    match failure {
        Failure::Away(cause) => {
            tracing::warn!(provider = settings.name, %cause, "an identity provider failed");
            ErrorCode::Unavailable.because(format!("{label} returned an unexpected answer: try again later"))
        }
        Failure::Refused(cause) => {
            tracing::warn!(provider = settings.name, %cause, "refused a sign-in at an identity provider");
            ErrorCode::Forbidden.because(format!("{label} did not confirm this sign-in: start again"))
        }
    }
}

fn refuse_disabled(account: &Account) -> Result<()> {
    if account.disabled_at.is_none() {
        return Ok(());
    }
    Err(ErrorCode::Forbidden.because("this account is disabled: ask the operator"))
}

/// Returns the address of a person if the provider is trusted for its domain and confirms it.
fn trusted_address(settings: &IdentityProvider, claims: &Claims) -> Result<EmailAddress> {
    let label = &settings.label;
    let refused = |text: String| Err(ErrorCode::Forbidden.because(text));
    let Some(email) = claims
        .text("email")
        .and_then(|text| EmailAddress::parse(text).ok())
    else {
        return refused(format!(
            "{label} did not return your email address: ask its administrator"
        ));
    };
    if !claims.email_is_verified() {
        return refused(format!(
            "{label} has not verified your email address: verify it there, and sign in again"
        ));
    }
    // A non-ASCII letter that becomes an ASCII letter in lower case would map two addresses to one.
    let is_ambiguous = email
        .text
        .chars()
        .any(|letter| !letter.is_ascii() && letter.to_lowercase().any(|lower| lower.is_ascii()));
    let domain = email.key.rsplit_once('@').map(|(_, domain)| domain);
    let is_trusted = domain.is_some_and(|domain| settings.trusted_domains.iter().any(|of| of == domain));
    if is_trusted && !is_ambiguous {
        return Ok(email);
    }
    refused(format!(
        "new people cannot sign in through {label} with an address of this domain: ask the operator"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sortie_testkit::list;

    use super::*;

    #[test]
    fn an_address_counts_where_the_provider_has_verified_it_and_is_trusted_for_its_domain() {
        let settings = IdentityProvider {
            name: "idp".to_owned(),
            label: "Example".to_owned(),
            issuer: "https://idp.example".to_owned(),
            client_id: "sortie".to_owned(),
            client_secret: Credential::new("x"),
            trusted_domains: vec!["example.com".to_owned()],
            scopes: Vec::new(),
            roles: None,
        };
        let key = |claims: serde_json::Value| {
            let mut text = claims;
            text["sub"] = json!("s");
            let claims = Claims::of_userinfo(text.to_string().as_bytes(), "s").unwrap();
            trusted_address(&settings, &claims).map(|email| email.key).ok()
        };
        let verified = |email: &str| key(json!({"email": email, "email_verified": true}));
        assert_eq!(verified("Ann@Example.com").as_deref(), Some("ann@example.com"));
        for other in list! {
            "ann@sub.example.com", "ann@example.com.evil.test", "ann@notexample.com", "ann", "",
            "ann@example.com@evil.test",
            // The Kelvin sign becomes `k` in lower case.
            "\u{212a}ate@example.com",
        } {
            assert_eq!(verified(other), None, "{other}");
        }
        let email = "ann@example.com";
        for (claim, value, counts) in [
            ("email_verified", json!(true), true),
            ("email_verified", json!("true"), true),
            ("email_verified", json!(false), false),
            ("email_verified", json!("false"), false),
            ("email_verified", json!(null), false),
            ("email_verified", json!([true]), false),
            ("xms_edov", json!(true), true),
            ("xms_edov", json!("1"), true),
            ("xms_edov", json!(0), false),
            ("other", json!(true), false),
        ] {
            let mut claims = json!({"email": email});
            claims[claim] = value.clone();
            assert_eq!(key(claims).is_some(), counts, "{claim} {value}");
        }
        let contradicted = json!({"email": email, "email_verified": false, "xms_edov": true});
        assert_eq!(key(contradicted), None);
    }
}
