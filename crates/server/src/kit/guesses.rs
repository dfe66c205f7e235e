//! Limit on the look-ups that guessed credentials cost the store.
//!
//! Only the store knows whether a well-formed credential is a key, and asking it is what a guess costs. So a credential
//! that is nobody's is remembered for the window, and each further one counts against its network. A network that has
//! sent a quota of them is looked up no more in this window, except for credentials that were valid before: whoever
//! guesses behind the same address does not lock out keys in use. The time is an argument.
//!
//! Each node counts alone, unlike the rate limits: to share this count would cost the store what it is to spare it. The
//! requests themselves count against the network on all nodes together, whatever is guessed in them.

use std::{
    collections::HashSet,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use sha2::{Digest as _, Sha256};

use super::rate_limit::{NETWORKS, SHARDS, WINDOW_SECONDS, Windows};

/// Credentials remembered as valid; beyond it they are forgotten all at once, and learnt again.
const VALID: usize = 65_536;

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

/// Advice on a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Ask whose it is.
    LookUp,
    /// Refuse the credential: it was unknown a moment ago.
    Nobodys,
    /// Too many from there were nobody's: refuse without asking.
    Refuse,
}

/// Memory of valid and unknown credentials of this node.
#[derive(Debug)]
pub(crate) struct Guesses {
    /// Credentials in one window that are nobody's, by network.
    counts: Windows<IpAddr>,
    valid: Mutex<HashSet<Token>>,
    nobodys: Mutex<Nobodys>,
}

#[derive(Debug, Default)]
struct Nobodys {
    window: u64,
    tokens: HashSet<Token>,
}

impl Guesses {
    pub(crate) fn new(quota: u32) -> Self {
        Self {
            counts: Windows::new(NETWORKS / SHARDS, quota, None),
            valid: Mutex::default(),
            nobodys: Mutex::default(),
        }
    }

    /// Returns the advice on `token` from `network`.
    pub(crate) fn advice(&self, token: Token, network: IpAddr, now_seconds: u64) -> Advice {
        if self.valid().contains(&token) {
            Advice::LookUp
        } else if self.nobodys(now_seconds).tokens.contains(&token) {
            Advice::Nobodys
        } else if self.counts.peek(&network, now_seconds).admitted {
            Advice::LookUp
        } else {
            Advice::Refuse
        }
    }

    /// The look-up found whose it is.
    pub(crate) fn found(&self, token: Token) {
        let mut valid = self.valid();
        if valid.len() >= VALID && !valid.contains(&token) {
            valid.clear();
        }
        valid.insert(token);
    }

    /// The look-up found nobody.
    pub(crate) fn not_found(&self, token: Token, network: IpAddr, now_seconds: u64) {
        self.valid().remove(&token);
        self.counts.take(network, now_seconds, None);
        let mut nobodys = self.nobodys(now_seconds);
        if nobodys.tokens.len() < NOBODYS {
            nobodys.tokens.insert(token);
        }
    }

    fn valid(&self) -> MutexGuard<'_, HashSet<Token>> {
        self.valid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the unknown credentials of this window. A later window looks them up again: a restored database may know
    /// them.
    fn nobodys(&self, now_seconds: u64) -> MutexGuard<'_, Nobodys> {
        let mut nobodys = self.nobodys.lock().unwrap_or_else(PoisonError::into_inner);
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

    const QUOTA: u32 = 3;

    fn network(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    fn token(number: usize) -> Token {
        Token::of(&number.to_string())
    }

    /// Guesses until no further look-up is allowed; how many there were.
    fn look_ups(guesses: &Guesses, network: IpAddr, now: u64) -> usize {
        let look_ups = (1_000..2_000).filter(|number| {
            let asked = guesses.advice(token(*number), network, now) == Advice::LookUp;
            if asked {
                guesses.not_found(token(*number), network, now);
            }
            asked
        });
        look_ups.count()
    }

    #[test]
    fn a_network_has_a_quota_of_look_ups_that_find_nobody() {
        let guesses = Guesses::new(QUOTA);
        assert_eq!(look_ups(&guesses, network(1), 0), 3);
        assert_eq!(guesses.advice(token(1), network(1), 59), Advice::Refuse);
        assert_eq!(guesses.advice(token(1), network(2), 59), Advice::LookUp);
        assert_eq!(guesses.advice(token(1), network(1), 60), Advice::LookUp);
    }

    #[test]
    fn a_key_in_use_is_looked_up_however_many_guesses_come_from_its_network() {
        let guesses = Guesses::new(QUOTA);
        guesses.found(token(1));
        look_ups(&guesses, network(1), 0);
        assert_eq!(guesses.advice(token(1), network(1), 0), Advice::LookUp);
        // Until it is revoked.
        guesses.not_found(token(1), network(1), 0);
        assert_eq!(guesses.advice(token(1), network(1), 0), Advice::Nobodys);
        assert_eq!(guesses.advice(token(1), network(1), 60), Advice::LookUp);
    }

    #[test]
    fn a_credential_that_is_sent_again_and_again_costs_one_look_up() {
        let guesses = Guesses::new(QUOTA);
        guesses.not_found(token(1), network(1), 0);
        for _ in 0..1_000 {
            assert_eq!(guesses.advice(token(1), network(1), 0), Advice::Nobodys);
        }
        assert_eq!(guesses.advice(token(2), network(1), 0), Advice::LookUp);
    }

    #[test]
    fn memory_is_bounded() {
        let guesses = Guesses::new(u32::MAX);
        for number in 0..=VALID {
            guesses.found(token(number));
            guesses.not_found(token(VALID + 1 + number), network(1), 0);
        }
        assert!(guesses.valid().len() <= VALID);
        assert_eq!(guesses.nobodys(0).tokens.len(), NOBODYS);
    }
}
