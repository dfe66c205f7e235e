//! License of a self-hosted engine: installation, allowance of new runs, expiry (`docs/LICENSES.md`).
//!
//! A node caches the license in memory, so a node without one runs no statement for it. The monthly count is only in the
//! database: the transaction of each run updates it.

use std::{sync::Arc, time::Duration};

use parking_lot::RwLock;
use sha2::{Digest as _, Sha256};
use sortie_api::{
    ErrorCode, License, Mode, OrgId, Refusal, Timestamp,
    check::{Check, Verdict},
    limits,
    usage::Day,
};
use sortie_base::{LicenseClaims, hex, read_license};
use sortie_store::{
    Store,
    access::Caller,
    licenses::{Allowance, InstalledLicense, LicenseUse, MonthlyRuns},
};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{Engine, kit::random::random};

/// Interval between reads of the license, which another node may have changed.
const REREAD: Duration = Duration::from_secs(5);

/// Time after its end for which a license still allows runs.
pub(crate) const GRACE: Duration = Duration::from_secs(limits::LICENSE_GRACE_SECONDS);

/// Time before the expiry of a license at which the checks begin to warn.
const NEAR: Duration = Duration::from_hours(30 * 24);

/// License of the engine, as this node last read it.
#[derive(Clone)]
pub(crate) struct Licensing {
    store: Store,
    mode: Mode,
    current: Arc<RwLock<Option<InstalledLicense>>>,
    /// Held while the license is changed or read, so that an older reading never replaces a newer one.
    changing: Arc<tokio::sync::Mutex<()>>,
}

impl Licensing {
    pub(crate) fn new(store: Store, mode: Mode) -> Self {
        Self {
            store,
            mode,
            current: Arc::default(),
            changing: Arc::default(),
        }
    }

    /// Allowance of a run that is created at `now`. None without a license.
    pub(crate) fn allowance(&self, now: Timestamp) -> Option<Allowance> {
        let current = self.current.read();
        let license = current.as_ref()?;
        if license.expires_at + GRACE <= now {
            return Some(Allowance::Ended(license.expires_at));
        }
        let day = Day::of(now);
        Some(Allowance::Monthly(MonthlyRuns {
            month: day.month().start(),
            resets_at: day.next_month().start(),
            most: license.monthly_runs,
        }))
    }

    /// Reads the license with its use in the month of `now`. A node without a license does not query the database.
    pub(crate) async fn in_use(&self, now: Timestamp) -> Result<Option<LicenseUse>, sortie_store::Error> {
        if self.allowance(now).is_none() {
            return Ok(None);
        }
        self.store.license_use(Day::of(now).month().start()).await
    }

    /// Reads the license again. A hosted engine has none.
    pub(crate) async fn reread(&self) -> Result<(), sortie_store::Error> {
        if self.mode == Mode::Hosted {
            return Ok(());
        }
        let _alone = self.changing.lock().await;
        self.take_over().await
    }

    /// Changes the license in the database, then reads it.
    async fn change(
        &self,
        change: impl Future<Output = Result<(), sortie_store::Error>> + Send,
    ) -> Result<(), sortie_store::Error> {
        let _alone = self.changing.lock().await;
        let changed = change.await;
        // Also after an error: the change may have been made.
        self.take_over().await?;
        changed
    }

    async fn take_over(&self) -> Result<(), sortie_store::Error> {
        let found = self.store.license().await?;
        *self.current.write() = found;
        Ok(())
    }

    /// Reads the license every [`REREAD`], until the node stops.
    pub(crate) async fn keep_reading(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(REREAD);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let reading = async {
            loop {
                tick.tick().await;
                if let Err(error) = self.reread().await {
                    tracing::warn!(%error, "reading the license failed");
                }
            }
        };
        stop.run_until_cancelled(reading).await;
    }
}

impl Engine {
    /// Returns the license with the runs of this month.
    pub async fn license(&self, org: OrgId) -> Result<License, Refusal> {
        let today = Day::of(self.0.options.clock.now());
        let unlicensed = License {
            licensed: false,
            organization: None,
            deployment_id: None,
            name: None,
            machine_id: self.machine_id(org),
            monthly_runs: None,
            runs_used: 0,
            resets_at: today.next_month().start(),
            expires_at: None,
            grace_until: None,
        };
        let Some(LicenseUse { license, used }) = self.store().license_use(today.month().start()).await?
        else {
            let runs_used = self.usage_totals(org, today.month(), today).await?.runs;
            return Ok(License {
                runs_used,
                ..unlicensed
            });
        };
        Ok(License {
            licensed: true,
            organization: Some(license.organization),
            deployment_id: Some(license.deployment),
            name: Some(license.name),
            monthly_runs: Some(license.monthly_runs),
            runs_used: used,
            expires_at: Some(license.expires_at),
            grace_until: Some(license.expires_at + GRACE),
            ..unlicensed
        })
    }

    /// Installs the license of a token, in place of an earlier one. `InvalidRequest` names the rule that the token breaks.
    pub async fn put_license(&self, caller: &Caller, token: &str) -> Result<License, Refusal> {
        let options = &self.0.options;
        let now = options.clock.now();
        let claims = read_license(token, &options.license.public_keys)
            .map_err(|error| ErrorCode::InvalidRequest.because(format!("token: {error}")))?;
        let own = self.machine_id(caller.org);
        if claims.machine_id != own {
            return Err(ErrorCode::InvalidRequest.because(format!(
                "token: must be issued for this installation with the machine ID {own}; it is for {}",
                claims.machine_id
            )));
        }
        if claims.expires_at <= now {
            let expired = claims.expires_at;
            return Err(ErrorCode::InvalidRequest
                .because(format!("token: must not be expired; it expired at {expired}")));
        }
        let audit = caller.audit((options.clock.now(), random()?), "license.put", claims.deployment);
        let licensing = &self.0.stores.licensing;
        licensing
            .change(self.store().put_license(installed(claims, now), audit))
            .await?;
        self.license(caller.org).await
    }

    /// Deletes the license. From then on the engine has no allowance to use up. `NotFound` without a license.
    pub async fn delete_license(&self, caller: &Caller) -> Result<(), Refusal> {
        let own = self.machine_id(caller.org);
        let audit = caller.audit((self.0.options.clock.now(), random()?), "license.delete", own);
        let licensing = &self.0.stores.licensing;
        Ok(licensing.change(self.store().delete_license(audit)).await?)
    }

    /// Returns the ID of the installation: that of the configuration, or one that every node derives from the organization
    /// that was created with the database.
    fn machine_id(&self, org: OrgId) -> String {
        let configured = self.0.options.license.machine_id.clone();
        configured.unwrap_or_else(|| derived_machine_id(org))
    }

    /// Checks the end and the use of the license. None without a license.
    pub(crate) async fn check_license(&self) -> Result<Option<Check>, Refusal> {
        let now = self.0.options.clock.now();
        let found = self.0.stores.licensing.in_use(now).await?;
        Ok(found.map(|found| check_of(&found, now)))
    }
}

fn installed(claims: LicenseClaims, now: Timestamp) -> InstalledLicense {
    InstalledLicense {
        serial: claims.serial,
        deployment: claims.deployment,
        organization: claims.organization,
        name: claims.name,
        monthly_runs: claims.monthly_runs,
        expires_at: claims.expires_at,
        installed_at: now,
    }
}

fn check_of(found: &LicenseUse, now: Timestamp) -> Check {
    let (name, license) = ("license", &found.license);
    let use_of_month = format!("{} of {} runs used this month", found.used, license.monthly_runs);
    let days = |until: Timestamp| until.since(now).as_secs().div_ceil(86_400);
    let expires = license.expires_at;
    if expires + GRACE <= now {
        let found = format!("expired at {expires}; runs are refused");
        return Check::new(name, Verdict::Fault, found)
            .hint("install a new license: `sortie license install TOKEN`; or `sortie license delete`");
    }
    if expires <= now {
        let left = days(expires + GRACE);
        let found = format!("expired at {expires}; runs are refused in {left} days; {use_of_month}");
        return Check::new(name, Verdict::Warning, found)
            .hint("install a new license: `sortie license install TOKEN`");
    }
    let found_text = format!("expires in {} days; {use_of_month}", days(expires));
    if found.used >= license.monthly_runs {
        return Check::new(name, Verdict::Fault, found_text)
            .hint("runs are refused until the next month, or until a license with more runs is installed");
    }
    if expires <= now + NEAR || found.used >= license.monthly_runs / 10 * 9 {
        return Check::new(name, Verdict::Warning, found_text)
            .hint("a new license can be installed at any time; the count of the month stays");
    }
    Check::new(name, Verdict::Ok, found_text)
}

fn derived_machine_id(org: OrgId) -> String {
    let digest = Sha256::digest(format!("sortie installation {org}"));
    hex(digest.get(..16).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use sortie_api::DeploymentId;

    use super::*;

    fn at(days: i64) -> Timestamp {
        Timestamp::from_micros(1_795_000_000_000_000 + days * 86_400_000_000)
    }

    fn in_use(used: i64, monthly_runs: i64, expires_at: Timestamp) -> LicenseUse {
        LicenseUse {
            license: InstalledLicense {
                serial: "1".to_owned(),
                deployment: DeploymentId::new(at(0), [1; 10]),
                organization: OrgId::new(at(0), [2; 10]),
                name: "north".to_owned(),
                monthly_runs,
                expires_at,
                installed_at: at(-1),
            },
            used,
        }
    }

    #[test]
    fn the_check_tells_when_a_license_ends_and_what_is_left() {
        let check = |used, monthly_runs, end| {
            let check = check_of(&in_use(used, monthly_runs, at(end)), at(0));
            (check.verdict, check.found)
        };
        let text = "expires in 100 days; 3 of 100 runs used this month";
        assert_eq!(check(3, 100, 100), (Verdict::Ok, text.to_owned()));
        assert_eq!(check(90, 100, 100).0, Verdict::Warning);
        let text = "expires in 100 days; 100 of 100 runs used this month";
        assert_eq!(check(100, 100, 100), (Verdict::Fault, text.to_owned()));
        let text = "expires in 30 days; 3 of 100 runs used this month";
        assert_eq!(check(3, 100, 30), (Verdict::Warning, text.to_owned()));
        let (verdict, text) = check(3, 100, -1);
        assert_eq!(verdict, Verdict::Warning);
        assert!(
            text.ends_with("runs are refused in 13 days; 3 of 100 runs used this month"),
            "{text}"
        );
        let (verdict, text) = check(3, 100, -14);
        assert_eq!(verdict, Verdict::Fault);
        assert!(
            text.starts_with("expired at ") && text.ends_with("runs are refused"),
            "{text}"
        );
    }

    #[test]
    fn an_installation_has_a_name_that_stays() {
        let org: OrgId = "org_01kafs6w1cefkstv6qr1ptb0mp".parse().unwrap();
        assert_eq!(derived_machine_id(org).len(), 32);
        assert_eq!(derived_machine_id(org), derived_machine_id(org));
        let other = OrgId::new(Timestamp::from_micros(0), [1; 10]);
        assert_ne!(derived_machine_id(org), derived_machine_id(other));
    }

    #[tokio::test]
    async fn a_license_allows_runs_until_its_grace_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let licensing = Licensing::new(crate::testing::store_in(&dir).await, Mode::SelfHosted);
        assert_eq!(licensing.allowance(at(0)), None);
        let license = in_use(0, 7, at(0)).license;
        *licensing.current.write() = Some(license);
        let just_before = Timestamp::from_micros(at(14).as_micros() - 1);
        let Some(Allowance::Monthly(allowed)) = licensing.allowance(just_before) else {
            panic!("the grace has not ended");
        };
        assert_eq!(allowed.most, 7);
        assert!(allowed.month <= just_before && just_before < allowed.resets_at);
        assert_eq!(licensing.allowance(at(14)), Some(Allowance::Ended(at(0))));
        licensing.reread().await.unwrap();
        assert_eq!(licensing.allowance(at(14)), None, "the database has none");
    }
}
