//! Audit after each kill: compares the record of the clients with the API and the database.

use sortie_api::Role;

use super::{
    ownership::of_role,
    record::Key,
    requests::Call,
    team::{Team, text},
};
use crate::prelude::*;

impl Team {
    /// Compares the team's record with the API. With `everybody` all people sign in again, not only new ones.
    pub(crate) async fn check(&mut self, everybody: bool) -> Result<()> {
        let first = if everybody { 0 } else { self.signed_in };
        for person in &self.people[first..] {
            let login = self.sign_in(&person.email, &person.password).await?;
            ensure!(login["user"]["id"] == person.user.as_str(), "{login}");
        }
        self.signed_in = self.people.len();
        for person in 0..self.people.len() {
            self.check_organizations_of(person).await?;
        }
        for at in 0..self.organizations.len() {
            let name = self.organizations[at].id.clone();
            self.check_organization(at).await.context(name)?;
        }
        for at in 0..self.families.len() {
            self.use_access(at).await?;
            self.see_end(at).await?;
        }
        Ok(())
    }

    /// Checks the organizations that a person sees, and records those that were created although the answer was lost.
    async fn check_organizations_of(&mut self, person: usize) -> Result<()> {
        let call = Call::get("/v1/organizations").by(self.token(person));
        let listed = self.requests.ask(&call).await?.expect(200)?.json()?;
        let mut seen = BTreeMap::new();
        for organization in listed.as_array().context("no list")? {
            let (id, name) = (text(organization, "id")?, text(organization, "name")?);
            let role: Role = serde_json::from_value(organization["role"].clone())?;
            if self.people[person].lost_organizations.remove(&name) {
                self.found(person, &id);
            }
            seen.insert(id, role);
        }
        // No request is in progress: an organization that does not exist now never will.
        self.people[person].lost_organizations.clear();
        let of_person = |organization: &super::record::Organization| {
            let role = organization.members.get(&person)?;
            Some((organization.id.clone(), *role))
        };
        let known: BTreeMap<String, Role> = self.organizations.iter().filter_map(of_person).collect();
        ensure!(
            known == seen,
            "{} sees {seen:?}, and should see {known:?}",
            self.people[person].email
        );
        Ok(())
    }

    async fn check_organization(&mut self, at: usize) -> Result<()> {
        let owner = self.organizations[at].owner();
        let members = self.members(at, owner).await?;
        let known = &self.organizations[at].members;
        ensure!(&members == known, "members are {members:?}, known are {known:?}");
        let owners = of_role(&members, Role::Owner);
        ensure!(owners.len() == 1, "{owners:?} own it");
        self.check_keys(at).await?;
        let log = self.audit_log(at).await?;
        self.organizations[at].changes.check(&log)
    }

    /// Checks that every acknowledged key exists and works, and that there is no other.
    async fn check_keys(&mut self, at: usize) -> Result<()> {
        let organization = &self.organizations[at];
        let call = Call::get(organization.path("/keys")).by(self.token(organization.owner()));
        let listed = self.requests.ask(&call).await?.expect(200)?.json()?;
        let mut seen = BTreeSet::new();
        for key in listed.as_array().context("no list")? {
            let (id, name) = (text(key, "id")?, text(key, "name")?);
            let organization = &mut self.organizations[at];
            if organization.lost_keys.remove(&name) {
                organization.keys.insert(id.clone(), Key::default());
            }
            seen.insert(id);
        }
        self.organizations[at].lost_keys.clear();
        let known: BTreeSet<String> = self.organizations[at].keys.keys().cloned().collect();
        ensure!(known == seen, "keys are {seen:?}, known are {known:?}");
        for id in &known {
            self.use_key(at, id).await?;
        }
        Ok(())
    }

    /// Reads the audit log of an organization: actions and targets.
    async fn audit_log(&self, at: usize) -> Result<Vec<(String, String)>> {
        let organization = &self.organizations[at];
        let list = format!("/engine/{}/v1/admin/audit?limit=100", organization.id);
        let (mut entries, mut path) = (Vec::new(), list.clone());
        loop {
            let call = Call::get(&*path).by(self.token(organization.owner()));
            let page = self.requests.ask(&call).await?.expect(200)?.json()?;
            for entry in page["items"].as_array().context("no list")? {
                entries.push((text(entry, "action")?, text(entry, "target")?));
            }
            let cursor = text(&page, "next_cursor")?;
            if cursor.is_empty() {
                return Ok(entries);
            }
            path = format!("{list}&cursor={cursor}");
        }
    }
}

/// Statements that must find nothing in any state of the database.
const NEVER: [(&str, &str); 7] = rows! {
    "an organization without exactly one owner",
    "SELECT o.id FROM organization o WHERE (SELECT COUNT(*) FROM membership m WHERE m.org_id = o.id AND m.role = 'owner') <> 1";
    "an address with two people", "SELECT LOWER(email) AS email FROM person GROUP BY LOWER(email) HAVING COUNT(*) > 1";
    "a membership of nobody",
    "SELECT m.user_id FROM membership m WHERE NOT EXISTS (SELECT 1 FROM person p WHERE p.id = m.user_id)";
    "an invitation that was accepted twice",
    "SELECT target FROM audit WHERE action = 'invitation.accept' GROUP BY target HAVING COUNT(*) > 1";
    "an invitation that was accepted and is open",
    "SELECT a.target FROM audit a JOIN invitation i ON i.id = a.target WHERE a.action = 'invitation.accept'";
    "a grant of somebody who is no member",
    "SELECT g.id FROM oauth_grant g WHERE NOT EXISTS (SELECT 1 FROM membership m WHERE m.org_id = g.org_id AND m.user_id = g.user_id)";
    // A used code has led to a pair, and so has each used refresh token; there are no other pairs.
    "a grant with more or fewer pairs than uses",
    "SELECT g.id FROM oauth_grant g WHERE \
     (SELECT COUNT(*) FROM oauth_token t WHERE t.grant_id = g.id AND t.kind = 'refresh') <> \
     (SELECT COUNT(*) FROM oauth_token t WHERE t.grant_id = g.id AND t.kind = 'refresh' AND t.used_at IS NOT NULL) + \
     (SELECT COUNT(*) FROM oauth_code c WHERE c.grant_id = g.id AND c.used_at IS NOT NULL) OR \
     (SELECT COUNT(*) FROM oauth_token t WHERE t.grant_id = g.id AND t.kind = 'refresh') <> \
     (SELECT COUNT(*) FROM oauth_token t WHERE t.grant_id = g.id AND t.kind = 'access')";
};

/// Checks the database, in addition to the records of the teams.
pub(crate) async fn check_database(node: &HostedNode, teams: &[Team]) -> Result<()> {
    for (never, sql) in NEVER {
        let found = node.node.rows(sql).await?;
        ensure!(found.is_empty(), "{never}: {found:?}");
    }
    let ids = async |sql: &str| -> Result<BTreeSet<String>> {
        let rows = node.node.rows(sql).await?;
        let id = |row: &Value| text(row, "id");
        rows.iter().map(id).collect()
    };
    let people: BTreeSet<String> = teams
        .iter()
        .flat_map(|team| team.people.iter().map(|person| person.user.clone()))
        .collect();
    let there = ids("SELECT id FROM person").await?;
    ensure!(
        people == there,
        "people that nobody knows: {:?}; people that are gone: {:?}",
        there.difference(&people).collect::<Vec<_>>(),
        people.difference(&there).collect::<Vec<_>>()
    );
    let organizations: BTreeSet<String> = teams
        .iter()
        .flat_map(|team| {
            team.organizations
                .iter()
                .map(|organization| organization.id.clone())
        })
        .collect();
    let there = ids("SELECT id FROM organization").await?;
    ensure!(organizations == there, "organizations are {there:?}");
    Ok(())
}
