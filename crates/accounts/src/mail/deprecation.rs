//! Letters to owners of organizations about a version of the API that stops working.

use std::time::Duration;

use sortie_api::Timestamp;
use sortie_store::outbox::{NewMail, OwnerRow};
use tokio_util::sync::CancellationToken;

use super::Letter;
use crate::{Parts, Result};

/// Owners in one transaction.
const PAGE: u32 = 500;

/// Interval between searches for owners without a notice. People can become owners after the first search.
const LOOK: Duration = Duration::from_hours(1);

/// Version of the API that is deprecated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiDeprecation {
    /// Name of the version.
    pub version: &'static str,
    /// Time from which it is deprecated.
    pub since: Timestamp,
    /// Time at which it stops working.
    pub sunset: Timestamp,
    /// Page about the next version.
    pub successor: Option<String>,
}

/// Queues one letter for each owner, from the start of the deprecation on. Every node runs this: mails are unique by
/// `dedupe`.
pub(super) async fn notify_owners(
    parts: &Parts,
    deprecation: Option<ApiDeprecation>,
    stop: &CancellationToken,
) {
    let Some(deprecation) = deprecation else {
        return;
    };
    loop {
        let now = parts.options.clock.now();
        let begins_in = deprecation.since.since(now);
        if begins_in.is_zero() {
            match queue_all(parts, &deprecation).await {
                Ok(0) => {}
                Ok(told) => tracing::info!(told, "queued mails about the deprecated version of the API"),
                Err(error) => {
                    tracing::error!(%error, "queueing mails about the deprecated version of the API failed");
                }
            }
        }
        let pause = if begins_in.is_zero() {
            LOOK
        } else {
            begins_in.min(LOOK)
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Queues the letters of all owners without one. Returns their number.
async fn queue_all(parts: &Parts, deprecation: &ApiDeprecation) -> Result<u64> {
    let prefix = format!("deprecated {} ", deprecation.version);
    let (mut after, mut queued) = (None, 0);
    loop {
        let owners = parts.store.owners_without_mail(&prefix, after, PAGE).await?;
        let Some(last) = owners.last() else {
            return Ok(queued);
        };
        after = Some(last.user);
        let mut mails = Vec::with_capacity(owners.len());
        for owner in &owners {
            match letter(parts, deprecation, &prefix, owner) {
                Ok(mail) => mails.extend(mail),
                Err(error) => {
                    tracing::warn!(%error, person = %owner.user, "no mail about the deprecated version");
                }
            }
        }
        queued += parts.store.queue_mails(mails).await?;
        parts.mail_queued();
    }
}

fn letter(
    parts: &Parts,
    deprecation: &ApiDeprecation,
    prefix: &str,
    owner: &OwnerRow,
) -> Result<Option<NewMail>> {
    let letter = Letter::ApiDeprecated {
        name: owner.name.clone(),
        version: deprecation.version.to_owned(),
        sunset: deprecation.sunset,
        successor: deprecation.successor.clone(),
    };
    let mail = parts.letter(&owner.email, &letter)?;
    Ok(mail.map(|mail| NewMail {
        dedupe: Some(format!("{prefix}{}", owner.user)),
        ..mail
    }))
}
