//! Texts that a browser or a mail stores for the server. They are sealed: the holder can neither read nor change them, and each has one
//! purpose.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use sortie_base::{SealContext, random};

use crate::{Accounts, Parts, Result};

/// Table of the context that seals these texts. No row of the database uses it.
const TABLE: &str = "page";

/// Length of the expiry time at the beginning of a text.
const TIME: usize = 8;

impl Accounts {
    /// Seals a text for a purpose and a holder, such as a session. The text opens only for both of them, until `lifetime` has
    /// passed.
    pub fn seal_text(
        &self,
        purpose_and_holder: (&str, &str),
        text: &[u8],
        lifetime: Duration,
    ) -> Result<String> {
        self.0.seal_text(purpose_and_holder, text, lifetime)
    }

    /// Opens a sealed text. Returns `None` if the text was changed, has expired, or was sealed for another purpose or holder.
    pub fn open_text(&self, (purpose, holder): (&str, &str), sealed: &str) -> Option<Vec<u8>> {
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let plain = self.0.sealer.open(context(purpose, holder), &sealed).ok()?;
        let (until, text) = plain.split_first_chunk::<TIME>()?;
        let now = self.0.options.clock.now().as_micros();
        (now < i64::from_be_bytes(*until)).then(|| text.to_vec())
    }
}

impl Parts {
    /// Seals a text as [`Accounts::seal_text`] does.
    pub(crate) fn seal_text(
        &self,
        (purpose, holder): (&str, &str),
        text: &[u8],
        lifetime: Duration,
    ) -> Result<String> {
        let until = self.options.clock.now() + lifetime;
        let mut plain = until.as_micros().to_be_bytes().to_vec();
        plain.extend_from_slice(text);
        let sealed = self.sealer.seal(context(purpose, holder), &plain, random()?)?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode(sealed))
    }
}

const fn context<'a>(purpose: &'a str, holder: &'a str) -> SealContext<'a> {
    SealContext {
        table: TABLE,
        column: purpose,
        row: holder,
        org: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Rig;

    #[tokio::test]
    async fn a_text_opens_for_its_purpose_and_its_holder_until_its_end() {
        let rig = Rig::new().await;
        let lifetime = Duration::from_mins(10);
        let sealed = rig
            .accounts
            .seal_text(("form", "sess_a"), b"text", lifetime)
            .unwrap();
        let open = |purpose, holder, text: &str| rig.accounts.open_text((purpose, holder), text);
        assert_eq!(open("form", "sess_a", &sealed).as_deref(), Some(&b"text"[..]));
        assert_eq!(open("form", "sess_b", &sealed), None);
        assert_eq!(open("return", "sess_a", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(open("form", "sess_a", &changed), None, "{at}");
        }
        for other in ["", "x", "!", &sealed[..sealed.len() / 2]] {
            assert_eq!(open("form", "sess_a", other), None);
        }
        rig.pass(lifetime);
        assert_eq!(open("form", "sess_a", &sealed), None);
    }
}
