//! Mail: letters to people, kept in the database until a mail server has taken them.

mod letter;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sortie_api::{MailId, Timestamp};
use sortie_base::{SealContext, random};
use sortie_store::{NewMail, SealedColumn};

pub(crate) use letter::Letter;

use crate::{Error, Parts, Result};

/// Time after which a letter without a token is given up.
const GIVEN_UP_AFTER: Duration = Duration::from_hours(24);

/// Settings of the mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailOptions {
    /// Address of the mail server, as `smtp://` or `smtps://`.
    pub smtp_url: String,
    /// Sender of every mail: an address, or a name with the address in angle brackets.
    pub from: String,
}

/// Content of a mail, as it is sealed.
#[derive(Serialize, Deserialize)]
struct Content {
    /// Address of the recipient.
    to: String,
    letter: Letter,
}

impl Parts {
    /// Makes the mail that brings `letter` to the address `to`. A command of the store queues the mail. `None` where no
    /// mail is configured.
    pub(crate) fn letter(&self, to: &str, letter: &Letter) -> Result<Option<NewMail>> {
        if self.options.mail.is_none() {
            return Ok(None);
        }
        let now = self.options.clock.now();
        self.mail(now, to, letter).map(Some)
    }

    fn mail(&self, now: Timestamp, to: &str, letter: &Letter) -> Result<NewMail> {
        let is_ours = |url: &str| {
            url.strip_prefix(&self.options.org_url)
                .is_some_and(|path| path.starts_with('/'))
        };
        if letter.url().is_some_and(|url| !is_ours(url)) {
            return Err(Error::Internal("a letter links to a foreign page".to_owned()));
        }
        let id = MailId::new(now, random()?);
        let content = serde_json::to_vec(&Content {
            to: to.to_owned(),
            letter: letter.clone(),
        })
        .map_err(|error| Error::Internal(error.to_string()))?;
        Ok(NewMail {
            id,
            kind: letter.kind(),
            content: self.sealer.seal(context(&id.to_string()), &content, random()?)?,
            dedupe: None,
            created_at: now,
            due_at: now,
            give_up_at: letter.expires_at().unwrap_or(now + GIVEN_UP_AFTER),
        })
    }
}

/// Seal context of the mail with the ID `row`.
const fn context(row: &str) -> SealContext<'_> {
    SealContext {
        table: SealedColumn::Mail.table(),
        column: SealedColumn::Mail.column(),
        row,
        org: None,
    }
}
