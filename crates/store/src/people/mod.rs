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

pub use attempts::{Attempt, PARTS};
pub use avatars::Avatar;
pub use deletion::PersonDeletion;
pub use identities::{IDENTITY_CHANGED, Identity, IdentityRow, ONLY_WAY, OTHER_IDENTITY, ProvenIdentity};
pub use invitations::{InvitationRow, Invited, NewInvitation};
pub use memberships::{GivenRole, MemberRow, NewOrganization, OwnOrganization};
pub use one_time::{NewOneTime, OneTimeMail, Purpose, UnknownPurpose};
pub use persons::{Account, NewPerson, PasswordChange, PersonRow};
pub use second_factor::{CODE_USED, Factor};
pub use sessions::{
    MemberSession, NewSession, SessionKind, SessionRow, SignIn, SignedIn, UnknownSessionKind,
};
