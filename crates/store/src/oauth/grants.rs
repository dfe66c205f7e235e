//! Grants: permissions of a person for OAuth clients, each in one organization.

use sortie_api::{GrantId, OrgId, Role, Timestamp, UserId};

use crate::{
    Error, Result, Store,
    access::{Actor, Audit, By, audit::record, lookups::Ended},
    db::{ReadRow, Stmt, Tx, insert, row, select, vals},
    people::persons,
};

/// Maximum number of grants of a person.
pub const GRANTS_OF_A_PERSON: u32 = 100;

/// Error of a grant that the person may not give.
const NOT_ALLOWED: Error = Error::Conflict("the role in this organization does not allow this scope");

/// Error of a person who has the maximum number of grants.
const TOO_MANY: Error =
    Error::Conflict("a person can give at most 100 applications access: end one of them first");

/// Grant to create, with the authorization code that the client gets.
#[derive(Clone, Debug)]
pub struct NewGrant {
    /// ID of the grant.
    pub id: GrantId,
    /// Organization in which the client may act.
    pub org: OrgId,
    /// Person who gives the permission.
    pub user: UserId,
    /// ID of the client.
    pub client_id: String,
    /// Name that the client gave itself.
    pub client_name: String,
    /// Highest role of the client: member or admin.
    pub scope: Role,
    /// Time of the permission.
    pub created_at: Timestamp,
    /// SHA-256 of the authorization code.
    pub code_hash: [u8; 32],
    /// Address that the browser brings the code to.
    pub redirect_uri: String,
    /// PKCE challenge, the unpadded base64url form of a SHA-256.
    pub challenge: String,
    /// End of the code. The grant ends with its code, unless the client redeems it.
    pub code_expires_at: Timestamp,
}

row! {
    /// Grant as its person sees it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct GrantRow {
        /// ID of the grant.
        pub id: GrantId = "g.id",
        /// Organization in which the client may act.
        pub org: OrgId = "g.org_id",
        /// Name of the organization.
        pub org_name: String = "o.name",
        /// ID of the client.
        pub client_id: String = "g.client_id",
        /// Name that the client gave itself.
        pub client_name: String = "g.client_name",
        /// Highest role of the client: member or admin.
        pub scope: Role = "g.scope",
        /// Time of the permission.
        pub created_at: Timestamp = "g.created_at",
        /// Time at which the client last got tokens.
        pub used_at: Timestamp = "g.used_at",
        /// End of the grant.
        pub expires_at: Timestamp = "g.expires_at",
    }
}

row! {
    /// Grant that a command has ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct EndedGrant {
        /// ID of the grant.
        pub id: GrantId = "id",
        /// Organization of the grant.
        pub org: OrgId = "org_id",
        /// Person of the grant.
        pub user: UserId = "user_id",
    }
}

/// Audit entry of a command that finds the organization of the grant itself.
#[derive(Clone, Debug)]
pub struct GrantAudit {
    /// Time of the command.
    pub at: Timestamp,
    /// Random bytes of the ID of the entry.
    pub random: [u8; 10],
    /// Author of the command. If the actor is anonymous, the grant is the author.
    pub actor: Actor,
}

impl Store {
    /// Creates a grant with its authorization code. `Conflict` if the person has no role in the organization that
    /// includes the scope, if the operator has suspended the organization or disabled the person, or if the person has
    /// [`GRANTS_OF_A_PERSON`] grants.
    pub async fn create_grant(&self, new: NewGrant, audit: Audit) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.batch(&[
                    // Of two concurrent grants the second one counts the first.
                    persons::lock(new.user).exactly(1, NOT_ALLOWED),
                    Stmt::new(
                        "SELECT 1 WHERE (SELECT COUNT(*) FROM oauth_grant WHERE user_id = $1 AND expires_at > $2) < $3",
                        vals![new.user, new.created_at, GRANTS_OF_A_PERSON],
                    )
                    .exactly(1, TOO_MANY),
                    insert(&new).exactly(1, NOT_ALLOWED),
                    insert!("oauth_code", {
                        "hash": &new.code_hash,
                        "grant_id": new.id,
                        "redirect_uri": new.redirect_uri.as_str(),
                        "challenge": new.challenge.as_str(),
                        "expires_at": new.code_expires_at,
                    }),
                    record(&audit),
                ])
                .map(drop)
            })
            .await
    }

    /// Returns the active grants of a person at `at`, in the order of their organizations and ids.
    pub async fn list_grants(&self, user: UserId, at: Timestamp) -> Result<Vec<GrantRow>> {
        self.db
            .read(move |tx| {
                tx.read_all(
                    select!(
                        GrantRow,
                        " FROM oauth_grant g JOIN organization o ON o.id = g.org_id \
                         WHERE g.user_id = $1 AND g.expires_at > $2 ORDER BY g.org_id, g.id"
                    ),
                    vals![user, at],
                )
            })
            .await
    }

    /// Ends a grant of a person. `NotFound` if the person has no such grant.
    pub async fn end_grant(&self, user: UserId, grant: GrantId, audit: GrantAudit) -> Result<EndedGrant> {
        let _ending = self.ending(Ended::Of(By::Grant(grant)));
        self.db
            .write(move |tx| {
                let ended = tx.read_one(
                    constcat::concat!(
                        "DELETE FROM oauth_grant WHERE id = $1 AND user_id = $2 RETURNING ",
                        EndedGrant::COLUMNS
                    ),
                    vals![grant, user],
                )?;
                audit_end(tx, ended, &audit, "grant.end")
            })
            .await
    }
}

/// Inserts a grant if the person is allowed to give it.
fn insert(new: &NewGrant) -> Stmt<'_> {
    insert!("oauth_grant", {
        "id": new.id,
        "org_id" = "m.org_id",
        "user_id" = "m.user_id",
        "client_id": new.client_id.as_str(),
        "client_name": new.client_name.as_str(),
        "scope": new.scope,
        "created_at" = "CAST(@ AS BIGINT)": new.created_at,
        "used_at" = "CAST(@ AS BIGINT)": new.created_at,
        "expires_at" = "CAST(@ AS BIGINT)": new.code_expires_at,
    }, select " FROM membership m JOIN organization o ON o.id = m.org_id JOIN person p ON p.id = m.user_id \
        WHERE m.org_id = @ AND m.user_id = @ AND m.role IN ($4, @, @) AND o.suspended_at IS NULL \
        AND p.disabled_at IS NULL", new.org, new.user, Role::Admin, Role::Owner)
}

/// Statement that ends every grant of a person.
pub(crate) fn revoke_of(user: UserId) -> Stmt<'static> {
    Stmt::new("DELETE FROM oauth_grant WHERE user_id = $1", vals![user])
}

/// Statement that ends every grant of a person in an organization.
pub(crate) fn revoke_of_member(org: OrgId, user: UserId) -> Stmt<'static> {
    Stmt::new(
        "DELETE FROM oauth_grant WHERE user_id = $1 AND org_id = $2",
        vals![user, org],
    )
}

/// Writes the audit entry of the end of a grant.
pub(super) fn audit_end(
    tx: &mut dyn Tx,
    grant: EndedGrant,
    audit: &GrantAudit,
    action: &'static str,
) -> Result<EndedGrant> {
    let by = audit.actor.by.unwrap_or(By::Grant(grant.id));
    let actor = Actor {
        by: Some(by),
        user: Some(audit.actor.user.unwrap_or(grant.user)),
        ..audit.actor.clone()
    };
    let entry = actor.audit((audit.at, audit.random), grant.org, action, grant.id);
    tx.batch(&[record(&entry)])?;
    Ok(grant)
}
