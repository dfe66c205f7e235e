//! People who sign in: their accounts, sessions, one-time tokens, attempts, and memberships of organizations.

pub(crate) mod attempts;
pub(crate) mod avatars;
pub(crate) mod deletion;
pub(crate) mod identities;
pub(crate) mod invitations;
pub(crate) mod memberships;
pub(crate) mod one_time;
pub(crate) mod persons;
pub(crate) mod second_factor;
pub(crate) mod sessions;
pub(crate) mod suspension;
