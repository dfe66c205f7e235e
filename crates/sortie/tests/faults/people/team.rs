//! A team of people with their organizations: one action after another, some of them raced by two people at once.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use sortie_api::Role;
use sortie_testkit::Application;

use super::{
    record::{Changes, Family, Key, Organization, Person, Tally},
    requests::{Call, Requests, Ways},
};
use crate::prelude::*;

/// Maximum number of organizations that a person creates: below the hourly limit.
const MOST_ORGANIZATIONS: usize = 15;
/// Maximum number of invitations of an organization: below the hourly limit.
const MOST_INVITATIONS: usize = 17;
/// Maximum number of organizations of a team, so that an audit takes only seconds.
const ORGANIZATIONS: usize = 12;
/// People of a team.
const PEOPLE: usize = 60;

/// People, their organizations, and the record of both.
#[derive(Debug)]
pub(crate) struct Team {
    pub(crate) name: String,
    pub(crate) requests: Requests,
    pub(crate) people: Vec<Person>,
    pub(crate) organizations: Vec<Organization>,
    /// OAuth client of the team. No id before it is registered.
    pub(crate) application: Application,
    pub(crate) families: Vec<Family>,
    /// Codes and refresh tokens that were exchanged for a pair.
    pub(crate) spent: BTreeSet<String>,
    pub(crate) tally: Tally,
    /// The operator's key.
    pub(crate) operator: String,
    /// Number of people, in order, for whom the audit has tried to sign in.
    pub(crate) signed_in: usize,
}

/// Text of a field of an answer.
pub(crate) fn text(value: &Value, name: &str) -> Result<String> {
    let text = value[name].as_str();
    Ok(text.with_context(|| format!("no {name} in {value}"))?.to_owned())
}

impl Team {
    pub(crate) fn new(name: String, ways: Ways, random: fastrand::Rng) -> Self {
        Self {
            name,
            requests: Requests::new(ways, random),
            people: Vec::new(),
            organizations: Vec::new(),
            application: Application::default(),
            families: Vec::new(),
            spent: BTreeSet::new(),
            tally: Tally::default(),
            operator: String::new(),
            signed_in: 0,
        }
    }

    /// Acts until the stop flag is set. Returns the team.
    pub(crate) async fn act(mut self, stop: Arc<AtomicBool>) -> Result<Self> {
        while !stop.load(Ordering::SeqCst) {
            self.act_once()
                .await
                .with_context(|| format!("team {}", self.name))?;
            let pause = self.requests.draw(|random| random.u64(0..15));
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        Ok(self)
    }

    async fn act_once(&mut self) -> Result<()> {
        if self.people.len() < 4 {
            return self.sign_up().await;
        }
        if self.organizations.len() < 2 {
            return self.create_organization().await;
        }
        match self.number(0..42) {
            0..2 if self.people.len() < PEOPLE => self.sign_up().await,
            2 if self.organizations.len() < ORGANIZATIONS => self.create_organization().await,
            0..10 => self.invite().await,
            10..12 => self.change_role().await,
            12 => self.remove().await,
            13..16 => self.race_for_ownership().await,
            16 => self.create_key().await,
            17 => self.rotate_key().await,
            18 => self.delete_key().await,
            19..22 => self.allow().await,
            22..27 => self.refresh().await,
            27 => self.race_for_tokens().await,
            28 => self.replay().await,
            29..33 => self.give_credits().await,
            33..41 => self.start_run().await,
            _ => self.revoke().await,
        }
    }

    pub(crate) fn number(&self, range: std::ops::Range<usize>) -> usize {
        self.requests.draw(|random| random.usize(range))
    }

    /// Draws an item of a list; `None` if the list is empty.
    pub(crate) fn some<T: Copy>(&self, items: &[T]) -> Option<T> {
        self.requests.draw(|random| random.choice(items.iter()).copied())
    }

    pub(crate) fn token(&self, person: usize) -> &str {
        &self.people[person].token
    }

    /// A unique number for names within this team.
    pub(crate) fn fresh(&self) -> String {
        format!(
            "{}-{:08x}",
            self.name,
            self.requests.draw(|random| random.u32(..))
        )
    }

    async fn sign_up(&mut self) -> Result<()> {
        let name = format!("person-{}", self.fresh());
        let (email, password) = (
            format!("{name}@example.com"),
            format!("plum anchor violet {name}"),
        );
        let body = json!({"email": email, "password": password, "name": name});
        let answered = self.requests.ask(&Call::post("/v1/auth/signup", &body)).await?;
        // The address is in use if a lost attempt has created the account.
        let login = if answered.is_done(201, 409)? {
            answered.answer.json()?
        } else {
            self.sign_in(&email, &password).await?
        };
        self.people.push(Person {
            user: text(&login["user"], "id")?,
            token: text(&login, "token")?,
            email,
            password,
            organizations: 0,
            lost_organizations: BTreeSet::new(),
            grants: 0,
        });
        Ok(())
    }

    /// Signs a person in. Returns the answer.
    pub(crate) async fn sign_in(&self, email: &str, password: &str) -> Result<Value> {
        let body = json!({"email": email, "password": password});
        let answered = self.requests.ask(&Call::post("/v1/auth/login", &body)).await?;
        let answer = answered
            .expect(200)
            .with_context(|| format!("{email} signed up and cannot sign in"))?;
        answer.json()
    }

    async fn create_organization(&mut self) -> Result<()> {
        let person = self.number(0..self.people.len());
        if self.people[person].organizations >= MOST_ORGANIZATIONS {
            return Ok(());
        }
        self.people[person].organizations += 1;
        let name = format!("organization {}", self.fresh());
        let call = Call::post("/v1/organizations", &json!({"name": name})).by(self.token(person));
        match self.requests.try_once(&call).await? {
            Some(answer) => {
                let id = text(&answer.expect(201)?.json()?, "id")?;
                self.found(person, &id);
            }
            None => {
                self.people[person].lost_organizations.insert(name);
            }
        }
        Ok(())
    }

    /// Records an organization that a person has created.
    pub(crate) fn found(&mut self, person: usize, id: &str) {
        let mut organization = Organization::new(id.to_owned(), person);
        organization.changes.done("organization.create", id, 0);
        self.organizations.push(organization);
    }

    pub(crate) fn some_organization(&self) -> usize {
        self.number(0..self.organizations.len())
    }

    /// Invites a person of the team, who usually accepts.
    async fn invite(&mut self) -> Result<()> {
        let at = self.some_organization();
        let organization = &self.organizations[at];
        let strangers: Vec<usize> = (0..self.people.len())
            .filter(|person| !organization.members.contains_key(person))
            .collect();
        let Some(person) = self
            .some(&strangers)
            .filter(|_| organization.invitations < MOST_INVITATIONS)
        else {
            return Ok(());
        };
        let role = self.some(&[Role::Member, Role::Admin]).unwrap_or(Role::Member);
        let body = json!({"email": self.people[person].email, "role": role});
        let call = Call::post(organization.path("/invitations"), &body).by(self.token(organization.owner()));
        let answered = self.requests.ask(&call).await?;
        let lost = answered.lost;
        let made = answered.expect(201)?.json()?;
        ensure!(made["email_delivery"] == "unavailable", "{made}");
        let (id, token) = (text(&made, "id")?, text(&made, "token")?);
        let organization = &mut self.organizations[at];
        organization.invitations += 1 + lost;
        organization.changes.done("invitation.create", &*id, lost);
        match self.number(0..8) {
            0 => self.withdraw(at, &id, &token, person).await,
            // Stays open.
            1 => Ok(()),
            _ => self.accept(at, (person, role), &id, &token).await,
        }
    }

    async fn withdraw(&mut self, at: usize, id: &str, token: &str, person: usize) -> Result<()> {
        let organization = &self.organizations[at];
        let path = organization.path(&format!("/invitations/{id}"));
        let call = Call::delete(path).by(self.token(organization.owner()));
        let answered = self.requests.ask(&call).await?;
        answered.is_done(204, 404)?;
        let changes = &mut self.organizations[at].changes;
        changes.done("invitation.withdraw", id, answered.lost);
        let accept = Call::post("/v1/invitations/accept", &json!({"token": token})).by(self.token(person));
        self.requests.ask(&accept).await?.expect(404).map(drop)
    }

    /// Accepts an invitation, sometimes twice at once. Only one attempt succeeds.
    async fn accept(
        &mut self,
        at: usize,
        (person, role): (usize, Role),
        id: &str,
        token: &str,
    ) -> Result<()> {
        let call = Call::post("/v1/invitations/accept", &json!({"token": token})).by(self.token(person));
        let answers = if self.number(0..2) == 0 {
            vec![self.requests.ask(&call).await?]
        } else {
            let (one, other) = tokio::join!(self.requests.ask(&call), self.requests.ask(&call));
            vec![one?, other?]
        };
        let lost: usize = answers.iter().map(|answered| answered.lost).sum();
        let mut accepted = 0;
        for answered in answers {
            match answered.answer.status {
                200 => accepted += 1,
                404 => {}
                _ => bail!("{}", answered.answer.text()),
            }
        }
        ensure!(
            accepted == 1 || accepted == 0 && lost > 0,
            "{id} was accepted {accepted} times, {lost} attempts were lost"
        );
        // A second acceptance would be another entry.
        let organization = &mut self.organizations[at];
        organization.members.insert(person, role);
        organization.changes.done("invitation.accept", id, 0);
        self.tally.accepted += 1;
        self.requests.ask(&call).await?.expect(404).map(drop)
    }

    async fn change_role(&mut self) -> Result<()> {
        let at = self.some_organization();
        let organization = &self.organizations[at];
        let Some(person) = self.some(&organization.others()) else {
            return Ok(());
        };
        let role = self.some(&[Role::Member, Role::Admin]).unwrap_or(Role::Member);
        let user = self.people[person].user.clone();
        let call = Call::patch(
            organization.path(&format!("/members/{user}")),
            &json!({"role": role}),
        );
        let answered = self
            .requests
            .ask(&call.by(self.token(organization.owner())))
            .await?;
        let lost = answered.lost;
        answered.expect(200)?;
        let organization = &mut self.organizations[at];
        organization.members.insert(person, role);
        organization.changes.done("member.role", user, lost);
        Ok(())
    }

    /// Removes a member, or lets a member leave.
    async fn remove(&mut self) -> Result<()> {
        let at = self.some_organization();
        let organization = &self.organizations[at];
        let Some(person) = self.some(&organization.others()) else {
            return Ok(());
        };
        let user = self.people[person].user.clone();
        let (action, call) = if self.number(0..2) == 0 {
            let path = organization.path(&format!("/members/{user}"));
            (
                "member.remove",
                Call::delete(path).by(self.token(organization.owner())),
            )
        } else {
            let call = Call::post(organization.path("/leave"), &Value::Null).by(self.token(person));
            ("member.leave", call)
        };
        let answered = self.requests.ask(&call).await?;
        answered.is_done(204, 404)?;
        self.organizations[at].changes.done(action, user, answered.lost);
        self.leaves(at, person);
        Ok(())
    }

    /// Records that a person has left the organization, and drops the rights that end with it.
    pub(crate) fn leaves(&mut self, at: usize, person: usize) {
        self.organizations[at].members.remove(&person);
        for family in &mut self.families {
            family.ended |= family.organization == at && family.person == person;
        }
    }

    /// Creates a key, which then opens the engine.
    async fn create_key(&mut self) -> Result<()> {
        let at = self.some_organization();
        let organization = &self.organizations[at];
        let name = format!("key {}", self.fresh());
        let call = Call::post(organization.path("/keys"), &json!({"name": name}));
        let call = call.by(self.token(organization.owner()));
        let Some(answer) = self.requests.try_once(&call).await? else {
            let organization = &mut self.organizations[at];
            organization.lost_keys.insert(name);
            organization.changes.may_be("key.create", 1);
            return Ok(());
        };
        let made = answer.expect(201)?.json()?;
        let (id, secret) = (text(&made, "id")?, text(&made, "key")?);
        let organization = &mut self.organizations[at];
        organization.changes.done("key.create", &*id, 0);
        let key = Key { secret: Some(secret) };
        organization.keys.insert(id.clone(), key);
        self.use_key(at, &id).await
    }

    /// Checks that a key opens the engine for its organization.
    pub(crate) async fn use_key(&self, at: usize, id: &str) -> Result<()> {
        let organization = &self.organizations[at];
        let secret = organization.keys.get(id).and_then(|key| key.secret.as_deref());
        let Some(secret) = secret else {
            return Ok(());
        };
        let call = Call::get("/v1/me").at_engine().by(secret);
        let me = self.requests.ask(&call).await?.expect(200);
        let me = me.with_context(|| format!("{id} is acknowledged"))?.json()?;
        ensure!(me["organization_id"] == organization.id.as_str(), "{me}");
        Ok(())
    }

    pub(crate) fn some_key(&self) -> Option<(usize, String)> {
        let at = self.some_organization();
        let ids: Vec<&String> = self.organizations[at].keys.keys().collect();
        self.some(&ids).map(|id| (at, id.clone()))
    }

    async fn rotate_key(&mut self) -> Result<()> {
        let Some((at, id)) = self.some_key() else {
            return Ok(());
        };
        let organization = &self.organizations[at];
        let path = organization.path(&format!("/keys/{id}/rotate"));
        let call = Call::post(path, &json!({"grace_seconds": 0})).by(self.token(organization.owner()));
        let answered = self.requests.ask(&call).await?;
        let lost = answered.lost;
        let secret = text(&answered.expect(200)?.json()?, "key")?;
        let organization = &mut self.organizations[at];
        organization.changes.done("key.rotate", &*id, lost);
        let key = Key { secret: Some(secret) };
        organization.keys.insert(id.clone(), key);
        self.use_key(at, &id).await
    }

    async fn delete_key(&mut self) -> Result<()> {
        let Some((at, id)) = self.some_key() else {
            return Ok(());
        };
        let organization = &self.organizations[at];
        let path = organization.path(&format!("/keys/{id}"));
        let call = Call::delete(path).by(self.token(organization.owner()));
        let answered = self.requests.ask(&call).await?;
        answered.is_done(204, 404)?;
        let organization = &mut self.organizations[at];
        organization.keys.remove(&id);
        organization.changes.done("key.delete", &*id, answered.lost);
        Ok(())
    }

    pub(crate) fn changes(&mut self, at: usize) -> &mut Changes {
        &mut self.organizations[at].changes
    }
}
