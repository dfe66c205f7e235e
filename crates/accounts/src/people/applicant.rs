//! People who sign up.

use sortie_api::Credential;

use crate::email::EmailAddress;

/// Person who signs up.
#[derive(Clone, Debug)]
pub struct Applicant {
    /// Email address of the person.
    pub email: String,
    /// Password of the person.
    pub password: Credential,
    /// Name that others see.
    pub name: String,
    /// Token of an invitation of the address.
    pub invitation: Option<Credential>,
}

/// Applicant whose proofs have the right form.
#[derive(Clone, Debug)]
pub(crate) struct CheckedApplicant {
    pub(super) email: EmailAddress,
    pub(super) password: Credential,
    pub(super) name: String,
}
