//! An application that acts for people by OAuth: codes and refresh tokens, each used once, used twice at once, and used
//! again.

use anyhow::bail;
use sortie_testkit::{
    Application, TokenPair,
    application::{CONSENT, TOKEN, code, decision},
};

use super::{
    record::Family,
    requests::{Answered, Call},
    team::Team,
};
use crate::prelude::*;

/// Grants of a person: below the limit.
const MOST_GRANTS: usize = 80;

impl Team {
    /// Registers the application if it has no id yet.
    async fn register(&mut self) -> Result<()> {
        if self.application.client_id.is_empty() {
            let call = Call::post("/oauth/register", &Application::metadata());
            self.application = Application::registered(self.requests.ask(&call).await?.answer)?;
        }
        Ok(())
    }

    /// Lets a person allow the application on the consent page, and exchanges the code. In half of the cases it is
    /// exchanged twice at once.
    pub(crate) async fn allow(&mut self) -> Result<()> {
        self.register().await?;
        let at = self.number(0..self.organizations.len());
        let members: Vec<usize> = self.organizations[at].members.keys().copied().collect();
        let person = self.some(&members).context("nobody is a member")?;
        if self.people[person].grants >= MOST_GRANTS {
            return Ok(());
        }
        self.people[person].grants += 1;
        let Some(code) = self.consent(at, person).await? else {
            self.changes(at).may_be("grant.create", 1);
            return Ok(());
        };
        // The client does not know the id of its grant.
        self.changes(at).done("grant.create", "", 0);
        self.families.push(Family {
            person,
            organization: at,
            code: code.clone(),
            pair: None,
            used: Vec::new(),
            ended: false,
            end_seen: false,
        });
        let family = self.families.len() - 1;
        let call = self.exchange_call(&code);
        if self.number(0..2) == 0 {
            let answered = self.requests.ask(&call).await?;
            self.take(family, &code, vec![answered])
        } else {
            let (one, other) = tokio::join!(self.requests.ask(&call), self.requests.ask(&call));
            self.tally.token_races += 1;
            self.take(family, &code, vec![one?, other?])
        }
        .context("the exchange of a code")?;
        self.tally.exchanged += usize::from(self.families[family].pair.is_some());
        self.use_access(family).await
    }

    /// Gets a code. `None` if the answer to the decision was lost.
    async fn consent(&self, at: usize, person: usize) -> Result<Option<String>> {
        let path = self.application.consent_page(&self.name);
        let page = self.requests.open(&path, self.token(person)).await?;
        let fields = decision(&page, &self.organizations[at].id)?;
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let decided = self.requests.submit(CONSENT, self.token(person), &fields);
        decided
            .await?
            .map(|decided| code(decided, &self.name))
            .transpose()
    }

    fn exchange_call(&self, code: &str) -> Call {
        Call::form(TOKEN, &self.application.exchange(code))
    }

    fn refresh_call(&self, token: &str) -> Call {
        Call::form(TOKEN, &self.application.refresh(token))
    }

    /// Records the answers to the uses of one code or one refresh token. At most one of them has a pair; a second
    /// deliberate use ends the family.
    fn take(&mut self, at: usize, spent: &str, answers: Vec<Answered>) -> Result<()> {
        let uses: usize = answers.iter().map(|answered| 1 + answered.lost).sum();
        let definite = answers.len();
        let mut pairs = Vec::new();
        for answered in answers {
            match answered.answer.status {
                200 => pairs.push(TokenPair::issued(&answered.answer)?),
                400 => is_invalid_grant(&answered.answer)?,
                status => bail!("{status} {}", answered.answer.text()),
            }
        }
        ensure!(pairs.len() <= 1, "{} pairs for one code or token", pairs.len());
        ensure!(
            !pairs.is_empty() || uses > 1,
            "the only use of a code or token was refused"
        );
        let family = &mut self.families[at];
        let organization = family.organization;
        // Every refusal here is caused by a second use.
        let was_reused = pairs.len() < definite;
        family.ended |= was_reused;
        if let Some(pair) = pairs.pop() {
            ensure!(self.spent.insert(spent.to_owned()), "{spent} gave a pair before");
            if let Some(before) = family.pair.replace(pair) {
                family.used.push(before.refresh);
            }
        }
        if was_reused {
            self.changes(organization).done("grant.end_reused", "", 0);
            self.tally.reuse_after_loss += usize::from(definite == 1);
        }
        Ok(())
    }

    /// A living family with a pair: its number and its refresh token.
    fn living(&self) -> Option<(usize, String)> {
        let living: Vec<(usize, &String)> = self
            .families
            .iter()
            .enumerate()
            .filter(|(_, family)| !family.ended)
            .filter_map(|(at, family)| Some((at, &family.pair.as_ref()?.refresh)))
            .collect();
        self.some(&living).map(|(at, token)| (at, token.clone()))
    }

    pub(crate) async fn refresh(&mut self) -> Result<()> {
        let Some((at, token)) = self.living() else {
            return self.allow().await;
        };
        let answered = self.requests.ask(&self.refresh_call(&token)).await?;
        self.take(at, &token, vec![answered]).context("a refresh")?;
        self.tally.refreshed += 1;
        self.use_access(at).await
    }

    /// Lets two processes of the application use one refresh token at once.
    pub(crate) async fn race_for_tokens(&mut self) -> Result<()> {
        let Some((at, token)) = self.living() else {
            return Ok(());
        };
        let call = self.refresh_call(&token);
        let (one, other) = tokio::join!(self.requests.ask(&call), self.requests.ask(&call));
        self.tally.token_races += 1;
        self.take(at, &token, vec![one?, other?])
            .context("a refresh raced by another")
    }

    /// Reuses a code or a refresh token that gave a pair, of a living family or of one that has ended.
    pub(crate) async fn replay(&mut self) -> Result<()> {
        let spent: Vec<(usize, bool)> = self
            .families
            .iter()
            .enumerate()
            .filter(|(_, family)| family.pair.is_some())
            .map(|(at, family)| (at, family.used.is_empty()))
            .collect();
        let Some((at, has_code_alone)) = self.some(&spent) else {
            return Ok(());
        };
        let family = &self.families[at];
        let call = if has_code_alone {
            self.exchange_call(&family.code)
        } else {
            let used: Vec<&String> = family.used.iter().collect();
            self.refresh_call(self.some(&used).context("no token")?)
        };
        let answered = self.requests.ask(&call).await?;
        is_invalid_grant(&answered.answer).context("a replay")?;
        self.tally.replays += 1;
        let family = &mut self.families[at];
        let organization = family.organization;
        if !std::mem::replace(&mut family.ended, true) {
            self.changes(organization).done("grant.end_reused", "", 0);
        }
        Ok(())
    }

    /// Lets the application end its own access.
    pub(crate) async fn revoke(&mut self) -> Result<()> {
        let Some((at, token)) = self.living() else {
            return Ok(());
        };
        let fields = [("client_id", &*self.application.client_id), ("token", &*token)];
        let call = Call::form("/oauth/revoke", &fields);
        self.requests.ask(&call).await?.expect(200)?;
        let family = &mut self.families[at];
        family.ended = true;
        let organization = family.organization;
        self.changes(organization).done("grant.end", "", 0);
        Ok(())
    }

    /// Checks that the newest acknowledged access token of a living family opens the engine.
    pub(crate) async fn use_access(&self, at: usize) -> Result<()> {
        let family = &self.families[at];
        let Some(pair) = family.pair.as_ref().filter(|_| !family.ended) else {
            return Ok(());
        };
        let call = Call::get("/v1/me").at_engine().by(&pair.access);
        let me = self.requests.ask(&call).await?.expect(200);
        let me = me.context("an acknowledged access token")?.json()?;
        let organization = &self.organizations[family.organization].id;
        ensure!(me["organization_id"] == organization.as_str(), "{me}");
        Ok(())
    }

    /// Checks once that the newest refresh token of a family that has ended is refused.
    pub(crate) async fn see_end(&mut self, at: usize) -> Result<()> {
        let family = &self.families[at];
        if !family.ended || family.end_seen {
            return Ok(());
        }
        if let Some(pair) = &family.pair {
            let answered = self.requests.ask(&self.refresh_call(&pair.refresh)).await?;
            is_invalid_grant(&answered.answer).context("a family that has ended")?;
        }
        self.families[at].end_seen = true;
        Ok(())
    }
}

fn is_invalid_grant(answer: &Answer) -> Result<()> {
    let is_it = answer.status == 400 && answer.json()?["error"] == "invalid_grant";
    ensure!(is_it, "{} {}", answer.status, answer.text());
    Ok(())
}
