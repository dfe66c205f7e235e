//! Checks if a site permits automatic access to a page, according to its robots.txt, which is cached for a while.
//!
//! A site without the file permits everything. If the file cannot be fetched, nothing is permitted until it can.

mod rules;

use std::{collections::HashMap, sync::Arc, time::Duration};

use http::{HeaderMap, Method, header::ACCEPT};
use parking_lot::{Mutex, MutexGuard};
use sortie_net::{BodyEnd, Client, Policy, read_head};
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout},
};
use url::{Origin, Url};

use self::rules::Rules;
use crate::follow::{Asked, Failure, Gate, follow};

/// Time for which the rules of a site are cached.
const KEPT: Duration = Duration::from_hours(1);
/// Time for which a failed fetch is cached.
const KEPT_FAILURE: Duration = Duration::from_mins(1);
/// Maximum number of cached sites.
const SITES: usize = 1000;
/// Maximum memory of the rules of all sites, in bytes.
const BYTES: usize = 32 << 20;
/// Timeout of a fetch.
const TIME: Duration = Duration::from_secs(6);

/// Cache of the rules of sites.
#[derive(Debug, Default)]
pub(crate) struct Robots {
    sites: Mutex<Sites>,
}

#[derive(Debug, Default)]
struct Sites {
    known: HashMap<Origin, Known>,
    /// Memory of all rules, in bytes.
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Known {
    rules: Answer,
    until: Instant,
}

/// Result for a site.
#[derive(Clone, Debug)]
enum Answer {
    /// The rules of the site, possibly empty.
    Rules(Arc<Rules>),
    /// The file cannot be fetched.
    Unreachable,
}

/// Scope of a result.
enum Asking {
    /// Valid for all runs for this time.
    Kept(Answer, Duration),
    /// Valid only for this run, because its policy influenced the result.
    Once(Answer),
}

impl Robots {
    /// Checks that a page may be fetched. The error is the reason why not.
    pub(crate) async fn check(&self, client: &Client, policy: &Policy, url: &Url) -> Result<(), Failure> {
        let site = url.origin();
        let rules = match self.known(&site) {
            Some(rules) => rules,
            None => match ask(client, policy, url).await? {
                Asking::Once(rules) => rules,
                Asking::Kept(rules, time) => {
                    self.keep(site, rules.clone(), Instant::now() + time);
                    rules
                }
            },
        };
        let unreachable = || {
            Failure::Robots(format!(
                "the robots.txt of {} cannot be read now, so its pages are not fetched",
                url.origin().ascii_serialization()
            ))
        };
        let Answer::Rules(rules) = rules else {
            return Err(unreachable());
        };
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        // Thousands of rules take CPU time, so this runs on a blocking thread.
        let allowed = spawn_blocking(move || rules.allow(&path)).await;
        if allowed.map_err(|_| unreachable())? {
            Ok(())
        } else {
            Err(Failure::Robots(format!(
                "the robots.txt of {} asks programs not to fetch this page",
                url.origin().ascii_serialization()
            )))
        }
    }

    fn sites(&self) -> MutexGuard<'_, Sites> {
        self.sites.lock()
    }

    fn known(&self, site: &Origin) -> Option<Answer> {
        let sites = self.sites();
        let known = sites
            .known
            .get(site)
            .filter(|known| known.until > Instant::now())?;
        Some(known.rules.clone())
    }

    fn keep(&self, site: Origin, rules: Answer, until: Instant) {
        let mut sites = self.sites();
        sites.forget(&site);
        let bytes = rules.bytes();
        if sites.is_full(bytes) {
            sites.forget_expired();
        }
        while sites.is_full(bytes) {
            let oldest = sites.known.iter().min_by_key(|(_, known)| known.until);
            let Some(oldest) = oldest.map(|(site, _)| site.clone()) else {
                break;
            };
            sites.forget(&oldest);
        }
        sites.bytes += bytes;
        sites.known.insert(site, Known { rules, until });
    }
}

impl Sites {
    fn is_full(&self, bytes: usize) -> bool {
        self.known.len() >= SITES || self.bytes + bytes > BYTES
    }

    fn forget(&mut self, site: &Origin) {
        if let Some(known) = self.known.remove(site) {
            self.bytes -= known.rules.bytes();
        }
    }

    fn forget_expired(&mut self) {
        let now = Instant::now();
        self.known.retain(|_, known| known.until > now);
        self.bytes = self.known.values().map(|known| known.rules.bytes()).sum();
    }
}

impl Answer {
    /// Returns the memory of the result, in bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Rules(rules) => rules.bytes(),
            Self::Unreachable => 0,
        }
    }
}

/// Fetches the robots.txt of the site of `url`. If the network fails, the page would fail as well, so that is the error.
async fn ask(client: &Client, policy: &Policy, url: &Url) -> Result<Asking, Failure> {
    let mut asked = Asked {
        method: Method::GET,
        url: url.clone(),
        headers: HeaderMap::new(),
    };
    asked.url.set_path("/robots.txt");
    asked.url.set_query(None);
    let text = http::HeaderValue::from_static("text/plain, */*;q=0.1");
    asked.headers.insert(ACCEPT, text);
    let no_rules = || Answer::Rules(Arc::new(Rules::default()));
    // Boxed because of recursion: `follow` calls this function.
    let answer = timeout(TIME, Box::pin(follow(client, policy, asked, Gate::Open)));
    let unreachable = Asking::Kept(Answer::Unreachable, KEPT_FAILURE);
    let answer = match answer.await {
        Err(_) => return Ok(unreachable),
        Ok(Err(failure)) if failure.is_of_policy() => return Ok(Asking::Once(no_rules())),
        // An endless chain of redirects counts as a missing file.
        Ok(Err(failure)) if failure.is_redirects() => return Ok(Asking::Kept(no_rules(), KEPT)),
        Ok(answer) => answer?,
    };
    let status = answer.response.status();
    if status.is_server_error() || status == http::StatusCode::TOO_MANY_REQUESTS {
        return Ok(unreachable);
    }
    if !status.is_success() {
        return Ok(Asking::Kept(no_rules(), KEPT));
    }
    match timeout(TIME, read_head(answer.response, rules::MAX_BYTES)).await {
        Ok(head) if !matches!(head.end, BodyEnd::Broken(_)) => {
            match spawn_blocking(move || Rules::parse(&head.bytes)).await {
                Ok(rules) => Ok(Asking::Kept(Answer::Rules(Arc::new(rules)), KEPT)),
                Err(_) => Ok(unreachable),
            }
        }
        Ok(_) | Err(_) => Ok(unreachable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_known_of_sites_is_bounded_and_runs_out() {
        let robots = Robots::default();
        let origin = |n: usize| {
            let url: Url = format!("https://site{n}.example/").parse().unwrap();
            url.origin()
        };
        for n in 0..SITES + 10 {
            let until = Instant::now() + KEPT + Duration::from_millis(n as u64);
            robots.keep(origin(n), Answer::Unreachable, until);
        }
        assert_eq!(robots.sites().known.len(), SITES);
        assert!(robots.known(&origin(9)).is_none());
        assert!(robots.known(&origin(10)).is_some());
        tokio::time::advance(KEPT + Duration::from_millis(15)).await;
        assert!(robots.known(&origin(15)).is_none());
        assert!(robots.known(&origin(16)).is_some());
        robots.keep(origin(0), Answer::Unreachable, Instant::now() + KEPT);
        assert_eq!(robots.sites().known.len(), SITES - 5);
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_of_all_rules_is_bounded() {
        let robots = Robots::default();
        let file = "User-agent: *\n".to_owned() + &format!("Disallow: /{}\n", "a".repeat(900)).repeat(500);
        let rules = Answer::Rules(Arc::new(Rules::parse(file.as_bytes())));
        let fit = BYTES / rules.bytes();
        assert!((10..SITES / 2).contains(&fit), "{fit}");
        for n in 0..fit + 20 {
            let url: Url = format!("https://site{}.example/", n % (fit + 10))
                .parse()
                .unwrap();
            let until = Instant::now() + KEPT + Duration::from_millis(n as u64);
            robots.keep(url.origin(), rules.clone(), until);
            let sites = robots.sites();
            assert_eq!(sites.bytes, sites.known.len() * rules.bytes());
            assert!(sites.bytes <= BYTES);
        }
        assert_eq!(robots.sites().known.len(), fit);
    }
}
