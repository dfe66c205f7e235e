//! Hand-overs of the ownership, each raced by another change of the same people.

use anyhow::bail;
use sortie_api::Role;

use super::{
    requests::{Answered, Call},
    team::{Team, text},
};
use crate::prelude::*;

/// Change that races with the hand-over from the owner to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rival {
    /// The owner also hands over to another member.
    AnotherHandOver,
    /// An admin changes the role of the member.
    Role(Role),
    /// An admin removes the member.
    Removal,
    /// The member leaves.
    Leave,
}

impl Team {
    /// Lets two people change the ownership at once, and checks the result.
    pub(crate) async fn race_for_ownership(&mut self) -> Result<()> {
        let at = self.number(0..self.organizations.len());
        let others = self.organizations[at].others();
        let (Some(to), Some(third)) = (self.some(&others), self.some(&others)) else {
            return Ok(());
        };
        let rival = match self.number(0..8) {
            0..3 if third != to => Rival::AnotherHandOver,
            3 => Rival::Role(Role::Member),
            4 => Rival::Role(Role::Admin),
            5 => Rival::Removal,
            6 => Rival::Leave,
            _ => return self.hand_over(at, to).await,
        };
        let organization = &self.organizations[at];
        let owner = organization.owner();
        let admin = if organization.members.get(&third) == Some(&Role::Admin) && third != to {
            third
        } else {
            owner
        };
        let member = organization.path(&format!("/members/{}", self.people[to].user));
        let second = match rival {
            Rival::AnotherHandOver => self.hand_over_call(at, (owner, third)),
            Rival::Role(role) => Call::patch(member, &json!({"role": role})).by(self.token(admin)),
            Rival::Removal => Call::delete(member).by(self.token(admin)),
            Rival::Leave => Call::post(organization.path("/leave"), &Value::Null).by(self.token(to)),
        };
        let first = self.hand_over_call(at, (owner, to));
        let (first, second) = tokio::join!(self.requests.ask(&first), self.requests.ask(&second));
        self.tally.races += 1;
        self.settle((at, owner, to, third), rival, (&first?, &second?))
            .await
            .with_context(|| format!("a hand-over raced by {rival:?}"))
    }

    fn hand_over_call(&self, at: usize, (from, to): (usize, usize)) -> Call {
        let body = json!({"user_id": self.people[to].user});
        Call::post(self.organizations[at].path("/ownership"), &body).by(self.token(from))
    }

    /// Hands the ownership over, without a race.
    async fn hand_over(&mut self, at: usize, to: usize) -> Result<()> {
        let owner = self.organizations[at].owner();
        let call = self.hand_over_call(at, (owner, to));
        let answered = self.requests.ask(&call).await?;
        // A repeated request gets 403, because the previous owner has lost the role.
        answered.is_done(204, 403)?;
        let user = self.people[to].user.clone();
        self.changes(at)
            .done("organization.ownership", user, answered.lost);
        let members = &mut self.organizations[at].members;
        members.insert(owner, Role::Admin);
        members.insert(to, Role::Owner);
        self.tally.hand_overs += 1;
        Ok(())
    }

    /// Reads the members after a race, and checks that they follow from the answers.
    async fn settle(
        &mut self,
        (at, owner, to, third): (usize, usize, usize, usize),
        rival: Rival,
        (first, second): (&Answered, &Answered),
    ) -> Result<()> {
        let now = self.members(at, owner).await?;
        let (before, lost) = (&self.organizations[at].members, first.lost + second.lost);
        let owners: Vec<usize> = of_role(&now, Role::Owner);
        ensure!(owners.len() == 1, "{owners:?} own it");
        let (handed, changed) = (is_success(first)?, is_success(second)?);
        match rival {
            Rival::AnotherHandOver => {
                ensure!(!(handed && changed), "both hand-overs were acknowledged");
                ensure!(handed || changed || lost > 0, "neither was acknowledged");
                ensure!(!handed || owners == [to], "acknowledged, and {owners:?} owns it");
                ensure!(
                    !changed || owners == [third],
                    "acknowledged, and {owners:?} owns it"
                );
                ensure!(
                    [owner, to, third].contains(&owners[0]),
                    "{owners:?} was never named"
                );
            }
            Rival::Role(_) => {
                // Any role may become the owner.
                ensure!(owners == [to], "{owners:?} owns it");
                ensure!(handed || first.lost > 0, "{}", first.answer.text());
            }
            Rival::Removal | Rival::Leave => {
                ensure!(!(handed && changed), "the new owner was removed");
                ensure!(handed || changed || lost > 0, "neither was acknowledged");
                let is_there = now.contains_key(&to);
                ensure!(!handed || owners == [to], "acknowledged, and {owners:?} owns it");
                ensure!(!changed || !is_there, "removed, and still a member");
                ensure!(is_there == (owners == [to]), "{owners:?} owns it");
            }
        }
        ensure!(
            owners == [owner] || now.get(&owner) == Some(&Role::Admin),
            "the former owner is no admin"
        );
        let is_party = |person: &usize| {
            [owner, to].contains(person) || rival == Rival::AnotherHandOver && *person == third
        };
        for (person, role) in before.iter().filter(|(person, _)| !is_party(person)) {
            ensure!(now.get(person) == Some(role), "{person} was {role:?}");
        }
        ensure!(
            now.keys().all(|person| before.contains_key(person)),
            "a new member"
        );
        let gone: Vec<usize> = before
            .keys()
            .filter(|person| !now.contains_key(person))
            .copied()
            .collect();
        ensure!(gone.iter().all(|person| *person == to), "{gone:?} are gone");
        self.remember((at, to, third), rival, (first, second))?;
        for person in gone {
            self.leaves(at, person);
        }
        self.organizations[at].members = now;
        Ok(())
    }

    /// Records the changes of a race for the check of the audit log.
    fn remember(
        &mut self,
        (at, to, third): (usize, usize, usize),
        rival: Rival,
        (first, second): (&Answered, &Answered),
    ) -> Result<()> {
        let (handed, changed) = (is_success(first)?, is_success(second)?);
        let user = |person: usize| self.people[person].user.clone();
        let (to_user, third_user) = (user(to), user(third));
        let log = self.changes(at);
        log.may_be("organization.ownership", first.lost);
        let (action, target) = match rival {
            Rival::AnotherHandOver => ("organization.ownership", third_user),
            Rival::Role(_) => ("member.role", to_user.clone()),
            Rival::Removal => ("member.remove", to_user.clone()),
            Rival::Leave => ("member.leave", to_user.clone()),
        };
        log.may_be(action, second.lost);
        if handed {
            log.done("organization.ownership", to_user, 0);
        }
        if changed {
            log.done(action, target, 0);
        }
        if handed || changed && rival == Rival::AnotherHandOver {
            self.tally.hand_overs += 1;
        }
        Ok(())
    }

    /// Reads the members of an organization, as a member with permission.
    pub(crate) async fn members(&self, at: usize, reader: usize) -> Result<BTreeMap<usize, Role>> {
        let call = Call::get(self.organizations[at].path("/members")).by(self.token(reader));
        let listed = self.requests.ask(&call).await?.expect(200)?.json()?;
        let listed = listed.as_array().context("no list")?;
        let member = |member: &Value| {
            let user = text(member, "id")?;
            let person = self.people.iter().position(|person| person.user == user);
            let role: Role = serde_json::from_value(member["role"].clone())?;
            Ok((person.with_context(|| format!("{user} is nobody"))?, role))
        };
        let members = listed.iter().map(member).collect::<Result<BTreeMap<_, _>>>()?;
        ensure!(members.len() == listed.len(), "a member is listed twice");
        Ok(members)
    }
}

/// Members with this role.
pub(crate) fn of_role(members: &BTreeMap<usize, Role>, role: Role) -> Vec<usize> {
    let found = members.iter().filter(|(_, has)| **has == role);
    found.map(|(person, _)| *person).collect()
}

/// Whether a change was made. A refusal is another answer that the race allows.
fn is_success(answered: &Answered) -> Result<bool> {
    match answered.answer.status {
        200 | 204 => Ok(true),
        // Depending on the race: not a member, not the owner, or the owner already.
        403 | 404 | 409 => Ok(false),
        status => bail!("{status} {}", answered.answer.text()),
    }
}
