//! Memory of credentials that are nobody's.
//!
//! Only the store knows whether a well-formed credential is a key. So every credential is looked up, whatever else came
//! from its network: a valid one is never refused for the guesses of others. A credential that was nobody's is remembered
//! for the window, so that a client that sends it again and again costs one look-up. The time is an argument.
//!
//! A request with a wrong credential counts against the rate limit of its network, and is refused with 429 beyond it.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use sha2::{Digest as _, Sha256};

use super::rate_limit::WINDOW_SECONDS;

/// Credentials of one window remembered as nobody's.
const NOBODYS: usize = 4_096;

/// The SHA-256 of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token([u8; 32]);

impl Token {
    pub(crate) fn of(credential: &str) -> Self {
        Self(Sha256::digest(credential.as_bytes()).into())
    }

    /// Returns the bytes that the store knows the credential by.
    pub(crate) const fn hash(self) -> [u8; 32] {
        self.0
    }
}

/// Memory of unknown credentials of this node.
#[derive(Debug, Default)]
pub(crate) struct Guesses(Mutex<Nobodys>);

#[derive(Debug, Default)]
struct Nobodys {
    window: u64,
    tokens: HashSet<Token>,
}

impl Guesses {
    /// Returns true where the look-up of this credential found nobody in this window.
    pub(crate) fn is_nobodys(&self, token: Token, now_seconds: u64) -> bool {
        self.nobodys(now_seconds).tokens.contains(&token)
    }

    /// Remembers that the look-up found nobody.
    pub(crate) fn not_found(&self, token: Token, now_seconds: u64) {
        let mut nobodys = self.nobodys(now_seconds);
        if nobodys.tokens.len() < NOBODYS {
            nobodys.tokens.insert(token);
        }
    }

    /// Locks the unknown credentials of this window. A later window looks them up again: a restored database may know
    /// them.
    fn nobodys(&self, now_seconds: u64) -> MutexGuard<'_, Nobodys> {
        let mut nobodys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let window = now_seconds / WINDOW_SECONDS;
        if nobodys.window != window {
            nobodys.window = window;
            nobodys.tokens.clear();
        }
        nobodys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: usize) -> Token {
        Token::of(&number.to_string())
    }

    #[test]
    fn a_credential_that_is_sent_again_and_again_costs_one_look_up_in_a_window() {
        let guesses = Guesses::default();
        assert!(!guesses.is_nobodys(token(1), 0));
        guesses.not_found(token(1), 0);
        assert!(guesses.is_nobodys(token(1), 59));
        assert!(!guesses.is_nobodys(token(2), 59));
        assert!(!guesses.is_nobodys(token(1), 60));
    }

    #[test]
    fn memory_is_bounded() {
        let guesses = Guesses::default();
        for number in 0..=NOBODYS {
            guesses.not_found(token(number), 0);
        }
        assert_eq!(guesses.nobodys(0).tokens.len(), NOBODYS);
    }
}
