//! Record of the clients: acknowledged changes, and those that may have happened although the answer was lost.

use sortie_api::Role;
use sortie_testkit::TokenPair;

use crate::prelude::*;

/// A person with an acknowledged sign-up.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) email: String,
    pub(crate) password: String,
    /// ID of the person.
    pub(crate) user: String,
    /// Token of the session.
    pub(crate) token: String,
    /// Organizations that the person has requested: there is a limit per hour.
    pub(crate) organizations: usize,
    /// Names of organizations that may exist: their creation was not answered.
    pub(crate) lost_organizations: BTreeSet<String>,
    /// Grants that the person gave, or may have given.
    pub(crate) grants: usize,
}

/// An acknowledged API key. Without a secret if the answer with it was lost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Key {
    pub(crate) secret: Option<String>,
}

/// An organization that exists.
#[derive(Clone, Debug)]
pub(crate) struct Organization {
    pub(crate) id: String,
    /// Roles of the members, by the number of the person.
    pub(crate) members: BTreeMap<usize, Role>,
    /// Invitations that were requested: there is a limit per hour.
    pub(crate) invitations: usize,
    /// Acknowledged keys by id.
    pub(crate) keys: BTreeMap<String, Key>,
    /// Names of keys that may exist: their creation was not answered.
    pub(crate) lost_keys: BTreeSet<String>,
    pub(crate) changes: Changes,
    /// Micros that the operator has given.
    pub(crate) granted: i64,
}

impl Organization {
    pub(crate) fn new(id: String, owner: usize) -> Self {
        Self {
            id,
            members: BTreeMap::from([(owner, Role::Owner)]),
            invitations: 0,
            keys: BTreeMap::new(),
            lost_keys: BTreeSet::new(),
            changes: Changes::default(),
            granted: 0,
        }
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/organizations/{}{rest}", self.id)
    }

    /// The owner, by the number of the person.
    pub(crate) fn owner(&self) -> usize {
        let owner = self.members.iter().find(|(_, role)| **role == Role::Owner);
        owner.map_or(0, |(person, _)| *person)
    }

    /// Members who are not the owner.
    pub(crate) fn others(&self) -> Vec<usize> {
        let others = self.members.iter().filter(|(_, role)| **role != Role::Owner);
        others.map(|(person, _)| *person).collect()
    }
}

/// Changes of an organization that its audit log has to show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// Acknowledged changes by action and target. The target is empty if the client does not know it.
    acknowledged: BTreeMap<(&'static str, String), usize>,
    /// Changes that may have happened, by action.
    possible: BTreeMap<&'static str, usize>,
}

impl Changes {
    /// Records an acknowledged change, after `lost` unanswered attempts.
    pub(crate) fn done(&mut self, action: &'static str, target: impl Into<String>, lost: usize) {
        *self.acknowledged.entry((action, target.into())).or_default() += 1;
        self.may_be(action, lost);
    }

    /// Remembers changes that may have happened.
    pub(crate) fn may_be(&mut self, action: &'static str, times: usize) {
        *self.possible.entry(action).or_default() += times;
    }

    /// Number of acknowledged changes.
    pub(crate) fn count(&self) -> usize {
        self.acknowledged.values().sum()
    }

    /// Compares the changes with the entries of the audit log, as actions and targets.
    pub(crate) fn check(&self, log: &[(String, String)]) -> Result<()> {
        let mut entries: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut by_action: BTreeMap<&str, usize> = BTreeMap::new();
        for (action, target) in log {
            *entries.entry((action, target)).or_default() += 1;
            *by_action.entry(action).or_default() += 1;
        }
        let mut acknowledged: BTreeMap<&str, usize> = BTreeMap::new();
        for ((action, target), times) in &self.acknowledged {
            *acknowledged.entry(action).or_default() += times;
            let found = entries.get(&(*action, target.as_str())).copied().unwrap_or(0);
            ensure!(
                target.is_empty() || found >= *times,
                "{action} of {target} was acknowledged {times} times and is in the log {found} times"
            );
        }
        for (action, possible) in &self.possible {
            let least = acknowledged.get(action).copied().unwrap_or(0);
            let found = by_action.remove(action).unwrap_or(0);
            ensure!(
                (least..=least + possible).contains(&found),
                "{action}: {least} were acknowledged, {possible} more are possible, {found} are in the log"
            );
        }
        ensure!(by_action.is_empty(), "nobody asked for {by_action:?}");
        Ok(())
    }
}

/// Permission of a person for the application, with its tokens.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    pub(crate) person: usize,
    pub(crate) organization: usize,
    pub(crate) code: String,
    /// The newest acknowledged pair. `None` before the code is exchanged.
    pub(crate) pair: Option<TokenPair>,
    /// Refresh tokens that were used.
    pub(crate) used: Vec<String>,
    /// True once the client has ended it, by a second use or by a revocation, or the person has left.
    pub(crate) ended: bool,
    /// True once the token endpoint has confirmed the end.
    pub(crate) end_seen: bool,
}

/// Numbers of what the clients did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) hand_overs: usize,
    pub(crate) races: usize,
    pub(crate) accepted: usize,
    pub(crate) exchanged: usize,
    pub(crate) refreshed: usize,
    pub(crate) token_races: usize,
    pub(crate) replays: usize,
    pub(crate) reuse_after_loss: usize,
    pub(crate) grants: usize,
    pub(crate) runs: usize,
    pub(crate) not_covered: usize,
}
