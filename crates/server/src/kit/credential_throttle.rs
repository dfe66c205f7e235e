//! Throttle of unknown credentials: each is looked up once in a window.
//!
//! Only the store knows whether a well-formed credential is valid. Every credential is therefore looked up, regardless of other
//! requests from its network: guesses by other clients never block a valid one. An unknown credential is remembered
//! for the window, so that a client that sends it repeatedly costs one look-up. The time is an argument.
//!
//! A request with a wrong credential counts against the rate limit of its network, and is refused with 429 above the limit.

use std::collections::HashSet;

use parking_lot::{Mutex, MutexGuard};
use sortie_api::secret::Presented;

use super::rate_limit::WINDOW_SECONDS;

/// Maximum number of unknown credentials that are remembered in one window.
const MOST_UNKNOWN: usize = 4_096;

/// The SHA-256 of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token([u8; 32]);

impl Token {
    pub(crate) const fn of(credential: Presented<'_>) -> Self {
        Self(credential.hash())
    }

    /// Returns the hash that the store uses for the credential.
    pub(crate) const fn hash(self) -> [u8; 32] {
        self.0
    }
}

/// Memory of unknown credentials of this node.
#[derive(Debug, Default)]
pub(crate) struct CredentialThrottle(Mutex<Unknown>);

#[derive(Debug, Default)]
struct Unknown {
    window: u64,
    tokens: HashSet<Token>,
}

impl CredentialThrottle {
    /// Returns true if a look-up in this window found this credential to be unknown.
    pub(crate) fn is_unknown(&self, token: Token, now_seconds: u64) -> bool {
        self.unknown(now_seconds).tokens.contains(&token)
    }

    /// Remembers that the credential is unknown.
    pub(crate) fn remember(&self, token: Token, now_seconds: u64) {
        let mut unknown = self.unknown(now_seconds);
        if unknown.tokens.len() < MOST_UNKNOWN {
            unknown.tokens.insert(token);
        }
    }

    /// Locks the unknown credentials of this window. A later window looks them up again: a restored database may know
    /// them.
    fn unknown(&self, now_seconds: u64) -> MutexGuard<'_, Unknown> {
        let mut unknown = self.0.lock();
        let window = now_seconds / WINDOW_SECONDS;
        if unknown.window != window {
            unknown.window = window;
            unknown.tokens.clear();
        }
        unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: usize) -> Token {
        Token::of((&number.to_string()).into())
    }

    #[test]
    fn a_credential_that_is_sent_again_and_again_costs_one_look_up_in_a_window() {
        let throttle = CredentialThrottle::default();
        assert!(!throttle.is_unknown(token(1), 0));
        throttle.remember(token(1), 0);
        assert!(throttle.is_unknown(token(1), 59));
        assert!(!throttle.is_unknown(token(2), 59));
        assert!(!throttle.is_unknown(token(1), 60));
    }

    #[test]
    fn memory_is_bounded() {
        let throttle = CredentialThrottle::default();
        for number in 0..=MOST_UNKNOWN {
            throttle.remember(token(number), 0);
        }
        assert_eq!(throttle.unknown(0).tokens.len(), MOST_UNKNOWN);
    }
}
