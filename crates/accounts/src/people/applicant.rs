//! People who sign up.

use sortie_api::Credential;

use crate::email::EmailAddress;

/// Applicant with well-formed proofs.
#[derive(Clone, Debug)]
pub(crate) struct CheckedApplicant {
    pub(super) email: EmailAddress,
    pub(super) password: Credential,
    pub(super) name: String,
    /// Path of the page that the person continues with after the verification.
    pub(super) back: Option<String>,
}
