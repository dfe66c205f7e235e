//! The operator of a hosted deployment: the key, and reads over all organizations and people.

use sortie_api::{OrgId, Timestamp, UserId};

use crate::{
    Error, Result, Store,
    access::{Audit, audit::record, lookups::Ended},
    db::{Answer, ReadRow, Stmt, insert, row, select, vals},
    error::unless,
    people::{
        one_time::{self, NewOneTime},
        persons::{self, NewPerson, TAKEN},
        sessions,
    },
};

/// Error if the deployment already has an operator key.
const NOT_THE_FIRST: Error = Error::Conflict("there is an operator key already");

row! {
    /// Organization as the operator sees it in a list.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OperatedOrganization {
        /// ID of the organization.
        pub id: OrgId = "o.id",
        /// Name of the organization.
        pub name: String = "o.name",
        /// Time of the creation.
        pub created_at: Timestamp = "o.created_at",
        /// Time of the suspension. `None` while the organization is not suspended.
        pub suspended_at: Option<Timestamp> = "o.suspended_at",
        /// Reason of the suspension, in the operator's words.
        pub suspended_why: Option<String> = "o.suspended_why",
        /// Time at which the owner deleted the organization.
        pub deleted_at: Option<Timestamp> = "o.deleted_at",
        /// Owner. `None` for an organization without one, such as one that was created without people.
        pub owner: Option<UserId> = "(SELECT m.user_id FROM membership m WHERE m.org_id = o.id AND m.role = 'owner')",
        /// Email address of the owner.
        pub owner_email: Option<String> = "(SELECT p.email FROM membership m JOIN person p ON p.id = m.user_id \
             WHERE m.org_id = o.id AND m.role = 'owner')",
        /// Number of members.
        pub members: i64 = "(SELECT COUNT(*) FROM membership m WHERE m.org_id = o.id)",
        /// Bytes of files and artifacts that the organization has stored.
        pub stored_bytes: i64 = "COALESCE((SELECT s.bytes FROM organization_storage s WHERE s.org_id = o.id), 0)",
    }
}

row! {
    /// Person as the operator sees them.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OperatedPerson {
        /// ID of the person.
        pub id: UserId = "id",
        /// Email address as the person typed it.
        pub email: String = "email",
        /// Name that others see.
        pub name: String = "name",
        /// Time of the sign-up.
        pub created_at: Timestamp = "created_at",
        /// Time at which the person proved that the address is theirs.
        pub email_verified_at: Option<Timestamp> = "email_verified_at",
        /// Time since which the person cannot sign in. `None` for an enabled person.
        pub disabled_at: Option<Timestamp> = "disabled_at",
    }
}

impl Store {
    /// System: stores the hash of the first operator key. Returns false if a key exists already.
    pub async fn set_first_operator_key(&self, hash: [u8; 32], at: Timestamp) -> Result<bool> {
        let made = self.db.write(move |tx| {
            tx.batch(&[
                // Lock: two nodes may start on an empty database at the same time.
                Stmt::new("UPDATE dispatch SET turn = turn + 1 WHERE id = 1", vals![]),
                insert!("operator_key", {
                    "hash" = "CAST(@ AS {BLOB})": &hash,
                    "created_at" = "CAST(@ AS BIGINT)": at,
                }, select " FROM dispatch WHERE id = 1 \
                    AND NOT EXISTS (SELECT 1 FROM operator_key k WHERE k.hash > CAST(@ AS {BLOB}))", &[][..])
                .exactly(1, NOT_THE_FIRST),
            ])
            .map(drop)
        });
        unless(&NOT_THE_FIRST, made.await)
    }

    /// System: whether a key with this SHA-256 is an operator key.
    pub async fn is_operator_key(&self, hash: [u8; 32]) -> Result<bool> {
        self.db
            .read(move |tx| {
                tx.query_opt(
                    "SELECT 1 FROM operator_key WHERE hash = $1",
                    vals![hash.as_slice()],
                )
                .map(|found| found.is_some())
            })
            .await
    }

    /// Operator: lists at most `limit` organizations after `after`, in the order of their ids.
    pub async fn operated_organizations(
        &self,
        after: Option<OrgId>,
        limit: u32,
    ) -> Result<Vec<OperatedOrganization>> {
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        self.db
            .read(move |tx| {
                tx.read_all(
                    select!(
                        OperatedOrganization,
                        " FROM organization o WHERE o.id > $1 ORDER BY o.id LIMIT $2"
                    ),
                    vals![after.as_str(), limit],
                )
            })
            .await
    }

    /// Operator: reads an organization.
    pub async fn operated_organization(&self, org: OrgId) -> Result<OperatedOrganization> {
        self.db
            .read(move |tx| {
                tx.read_one(
                    select!(OperatedOrganization, " FROM organization o WHERE o.id = $1"),
                    vals![org],
                )
            })
            .await
    }

    /// Operator: finds the person with an email address, given in the form that is compared.
    pub async fn operated_person(&self, email_key: &str) -> Result<OperatedPerson> {
        let email_key = email_key.to_owned();
        self.db
            .read(move |tx| {
                tx.read_one(
                    select!(OperatedPerson, " FROM person WHERE email_key = $1"),
                    vals![email_key.as_str()],
                )
            })
            .await
    }

    /// Operator: reads a person.
    pub async fn operated_person_by_id(&self, user: UserId) -> Result<OperatedPerson> {
        self.db
            .read(move |tx| tx.read_one(select!(OperatedPerson, " FROM person WHERE id = $1"), vals![user]))
            .await
    }

    /// Operator: lists at most `limit` people after `after`, in the order of their ids.
    pub async fn operated_people(&self, after: Option<UserId>, limit: u32) -> Result<Vec<OperatedPerson>> {
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        self.db
            .read(move |tx| {
                tx.read_all(
                    select!(
                        OperatedPerson,
                        " FROM person WHERE id > $1 AND deleted_at IS NULL ORDER BY id LIMIT $2"
                    ),
                    vals![after.as_str(), limit],
                )
            })
            .await
    }

    /// Operator: creates an account without a session, and the token by which the person sets a password. `Conflict` if
    /// the address has an account.
    pub async fn create_person(&self, person: NewPerson, reset: NewOneTime) -> Result<()> {
        self.db
            .write(move |tx| {
                tx.batch(&[
                    persons::insert(&person).exactly(1, TAKEN),
                    one_time::insert(&reset),
                ])
                .map(drop)
            })
            .await
    }

    /// Operator: prevents a person from signing in, and ends their sessions. A second call keeps the time of the first.
    /// `audits` has one entry for each organization of the person.
    pub async fn disable_person(
        &self,
        user: UserId,
        at: Timestamp,
        audits: Vec<Audit>,
    ) -> Result<OperatedPerson> {
        let _ending = self.ending(Ended::Person(user));
        self.db
            .write(move |tx| {
                let mut statements = vec![
                    Stmt::new(
                        constcat::concat!(
                            "UPDATE person SET disabled_at = COALESCE(disabled_at, $2) WHERE id = $1 RETURNING ",
                            OperatedPerson::COLUMNS
                        ),
                        vals![user, at],
                    )
                    .exactly(1, Error::NotFound),
                    sessions::delete_all(user),
                ];
                statements.extend(audits.iter().map(record));
                first_person(&tx.batch(&statements)?)
            })
            .await
    }

    /// Operator: lets a person sign in again. `audits` has one entry for each organization of the person.
    pub async fn enable_person(&self, user: UserId, audits: Vec<Audit>) -> Result<OperatedPerson> {
        self.db
            .write(move |tx| {
                let mut statements = vec![
                    Stmt::new(
                        constcat::concat!(
                            "UPDATE person SET disabled_at = NULL WHERE id = $1 RETURNING ",
                            OperatedPerson::COLUMNS
                        ),
                        vals![user],
                    )
                    .exactly(1, Error::NotFound),
                ];
                statements.extend(audits.iter().map(record));
                first_person(&tx.batch(&statements)?)
            })
            .await
    }
}

impl Store {
    /// Operator: ends all identities of a person at identity providers, and the sessions. `audits` has one entry for each
    /// organization of the person.
    pub async fn unlink_person(&self, user: UserId, audits: Vec<Audit>) -> Result<OperatedPerson> {
        let _ending = self.ending(Ended::Person(user));
        self.db
            .write(move |tx| {
                let mut statements = vec![
                    Stmt::new(
                        constcat::concat!(
                            "UPDATE person SET name = name WHERE id = $1 RETURNING ",
                            OperatedPerson::COLUMNS
                        ),
                        vals![user],
                    )
                    .exactly(1, Error::NotFound),
                    Stmt::new("DELETE FROM identity WHERE user_id = $1", vals![user]),
                    sessions::delete_all(user),
                ];
                statements.extend(audits.iter().map(record));
                first_person(&tx.batch(&statements)?)
            })
            .await
    }
}

/// Reads the person that the first statement of a batch returned.
fn first_person(answers: &[Answer]) -> Result<OperatedPerson> {
    let row = answers.first().and_then(|answer| answer.rows.first());
    OperatedPerson::read(row.ok_or(Error::NotFound)?)
}
