//! Cursors of lists: opaque, authenticated, and bound to one installation, one organization and the filters of the list.
//!
//! A cursor consists of a position (time and id of the last entry on the page) and an HMAC-SHA256 over the position, the
//! organization and the filters, truncated to 128 bits. The key belongs to the installation, so a cursor survives restarts, and
//! is valid on every node of the database and on no other. A position in a caller's list grants no access, and the list itself is
//! always read for the organization of the credential.

use std::{fmt::Display, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use sortie_api::Timestamp;
use sortie_engine::Engine;

/// Purpose of the key that the seal is made with.
const PURPOSE: &[u8] = b"sortie cursors of lists";
const SEAL_LEN: usize = 16;
const TIME_LEN: usize = 8;

/// Creates and verifies the cursors of an installation.
#[derive(Clone)]
pub(crate) struct Cursors(Hmac<Sha256>);

/// Creates and verifies the cursors of one list.
#[derive(Clone)]
pub(crate) struct ListCursors {
    cursors: Cursors,
    parts: Vec<String>,
}

/// Error for a text that is not a cursor of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this list; it is valid only with the filters it was made with")]
pub(crate) struct InvalidCursor;

impl Cursors {
    /// Cursors of the engine's installation.
    pub(crate) fn of(engine: &Engine) -> Self {
        Self(engine.installation_key(PURPOSE))
    }

    /// Cursors of the list with these parts, which must be unique for each list.
    pub(crate) fn list(&self, parts: impl Into<Vec<String>>) -> ListCursors {
        ListCursors {
            cursors: self.clone(),
            parts: parts.into(),
        }
    }
}

impl ListCursors {
    /// Returns the cursor of the entries after this position.
    pub(crate) fn after<I: Display>(&self, (at, id): (Timestamp, I)) -> String {
        let mut bytes = at.as_micros().to_be_bytes().to_vec();
        bytes.extend_from_slice(id.to_string().as_bytes());
        let seal = self.seal(&bytes).finalize().into_bytes();
        bytes.extend(seal.iter().take(SEAL_LEN));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Returns the position that a cursor of the list encodes.
    pub(crate) fn position<I: FromStr>(&self, cursor: &str) -> Result<(Timestamp, I), InvalidCursor> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| InvalidCursor)?;
        let (position, end) = bytes
            .len()
            .checked_sub(SEAL_LEN)
            .and_then(|at| bytes.split_at_checked(at))
            .ok_or(InvalidCursor)?;
        self.seal(position)
            .verify_truncated_left(end)
            .map_err(|_| InvalidCursor)?;
        let (time, id) = position.split_at_checked(TIME_LEN).ok_or(InvalidCursor)?;
        let micros = i64::from_be_bytes(time.try_into().map_err(|_| InvalidCursor)?);
        let id = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok());
        Ok((Timestamp::from_micros(micros), id.ok_or(InvalidCursor)?))
    }

    /// Appends a zero byte to each part. The parts contain no zero bytes.
    fn seal(&self, position: &[u8]) -> Hmac<Sha256> {
        let mut seal = self.cursors.0.clone();
        for part in &self.parts {
            seal.update(part.as_bytes());
            seal.update(&[0]);
        }
        seal.update(position);
        seal
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sortie_api::RunId;

    use super::*;

    const AT: Timestamp = Timestamp::from_micros(1_763_674_200_123_456);

    /// Cursors of the installation with this number.
    fn cursors(installation: u8) -> Cursors {
        Cursors(sortie_base::derived_key(&[installation; 32], PURPOSE))
    }

    fn run(at: i64, random: [u8; 10]) -> (Timestamp, RunId) {
        let created_at = Timestamp::from_micros(at);
        (created_at, RunId::new(created_at, random))
    }

    fn list(cursors: &Cursors, parts: &[&str]) -> ListCursors {
        let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        cursors.list(parts)
    }

    /// Cursors of a list of the installation with the number 1.
    fn plain() -> ListCursors {
        list(&cursors(1), &["org"])
    }

    #[test]
    fn a_cursor_belongs_to_the_parts_of_its_list() {
        let lists: [&[&str]; 6] = [
            &["org"],
            &["other"],
            &["org", ""],
            &["org", "status=queued"],
            &["org", "status=queued", "tag=a"],
            &["org", "status=queuedtag=a"],
        ];
        let last = run(AT.as_micros(), [9; 10]);
        for made in lists {
            for used in lists {
                let cursor = list(&cursors(1), made).after(last);
                let read = list(&cursors(1), used).position::<RunId>(&cursor);
                assert_eq!(read.is_ok(), made == used, "{made:?} {used:?}");
            }
        }
    }

    #[test]
    fn a_cursor_belongs_to_its_installation() {
        let last = run(AT.as_micros(), [9; 10]);
        let made = plain().after(last);
        assert_eq!(plain().position(&made), Ok(last), "after a restart too");
        assert_eq!(
            list(&cursors(2), &["org"]).position::<RunId>(&made),
            Err(InvalidCursor)
        );
    }

    proptest! {
        #[test]
        fn a_position_survives_its_cursor(at in 0_i64..i64::MAX, random: [u8; 10]) {
            let last = run(at, random);
            prop_assert_eq!(plain().position(&plain().after(last)), Ok(last));
        }

        #[test]
        fn any_changed_character_is_refused(random: [u8; 10], at: prop::sample::Index, to in "[A-Za-z0-9_=.-]") {
            let cursor = plain().after(run(AT.as_micros(), random));
            let at = at.index(cursor.len());
            let mut changed = cursor.clone();
            changed.replace_range(at..=at, &to);
            prop_assume!(changed != cursor);
            prop_assert_eq!(plain().position::<RunId>(&changed), Err(InvalidCursor));
        }

        #[test]
        fn a_cut_or_longer_cursor_is_refused(cut in 0_usize..72, more in "[A-Za-z0-9_-]{1,8}") {
            let cursor = plain().after(run(AT.as_micros(), [9; 10]));
            prop_assert_eq!(plain().position::<RunId>(&cursor[..cut]), Err(InvalidCursor));
            prop_assert_eq!(plain().position::<RunId>(&format!("{cursor}{more}")), Err(InvalidCursor));
        }

        #[test]
        fn no_text_is_a_cursor(text in any::<String>()) {
            prop_assert_eq!(plain().position::<RunId>(&text), Err(InvalidCursor));
        }
    }
}
