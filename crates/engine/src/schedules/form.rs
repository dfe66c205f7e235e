//! Rules of a schedule's own fields, and their defaults. The intake of its runs checks the other fields.

use sortie_api::{
    ErrorCode, Micros, Refusal, Timestamp,
    file::is_seen_whole,
    limits,
    request::Callback,
    schedule::{CreateSchedule, Overlap, UpdateSchedule},
};
use sortie_store::schedules::{ScheduleRow, ScheduleSpec};

use super::timetable::Timetable;
use crate::kit::rules::broken;

/// Fields of a schedule as a client sent them, with defaults filled in.
pub(super) struct Wanted {
    name: Option<String>,
    workflow: String,
    cron: String,
    timezone: String,
    input: Option<String>,
    enabled: bool,
    overlap: Overlap,
    catch_up_window_seconds: i64,
    jitter_seconds: i64,
    paused_until: Option<Timestamp>,
    max_consecutive_failures: Option<i64>,
    max_cost_micros: Option<i64>,
    callback: Option<Callback>,
}

/// A schedule that has passed the rules of its fields.
pub(super) struct Checked {
    /// Fields without the callback. The secret of the callback must be sealed first.
    pub(super) spec: ScheduleSpec,
    pub(super) enabled: bool,
    pub(super) callback: Option<Callback>,
    pub(super) timetable: Timetable,
}

const UTC: &str = "UTC";

impl From<CreateSchedule> for Wanted {
    fn from(sent: CreateSchedule) -> Self {
        Self {
            name: sent.name,
            workflow: sent.workflow,
            cron: sent.cron,
            timezone: sent.timezone.unwrap_or_else(|| UTC.to_owned()),
            input: sent.input.map(|input| input.get().to_owned()),
            enabled: sent.enabled.unwrap_or(true),
            overlap: sent.overlap.unwrap_or_default(),
            catch_up_window_seconds: sent
                .catch_up_window_seconds
                .unwrap_or(limits::CATCH_UP_SECONDS_DEFAULT),
            jitter_seconds: sent.jitter_seconds.unwrap_or(0),
            paused_until: sent.paused_until,
            max_consecutive_failures: sent.max_consecutive_failures,
            max_cost_micros: sent.max_cost_micros,
            callback: sent.callback,
        }
    }
}

impl Wanted {
    /// Applies a patch to a stored schedule. `null` resets a field to its default. The callback is set only if the
    /// patch has one, because the stored one stays sealed.
    pub(super) fn patched(old: &ScheduleRow, sent: UpdateSchedule) -> Self {
        let spec = old.spec.clone();
        Self {
            name: sent.name.unwrap_or(spec.name),
            workflow: sent.workflow.unwrap_or(spec.workflow),
            cron: sent.cron.unwrap_or(spec.cron),
            timezone: match sent.timezone {
                Some(zone) => zone.unwrap_or_else(|| UTC.to_owned()),
                None => spec.timezone,
            },
            input: match sent.input {
                Some(input) => input.map(|input| input.get().to_owned()),
                None => spec.input,
            },
            enabled: sent
                .enabled
                .map_or(old.state.enabled, |enabled| enabled.unwrap_or(true)),
            overlap: sent.overlap.map_or(spec.overlap, Option::unwrap_or_default),
            catch_up_window_seconds: sent
                .catch_up_window_seconds
                .map_or(spec.catch_up_window_seconds, |seconds| {
                    seconds.unwrap_or(limits::CATCH_UP_SECONDS_DEFAULT)
                }),
            jitter_seconds: sent
                .jitter_seconds
                .map_or(spec.jitter_seconds, Option::unwrap_or_default),
            paused_until: sent.paused_until.unwrap_or(spec.paused_until),
            max_consecutive_failures: sent
                .max_consecutive_failures
                .unwrap_or(spec.max_consecutive_failures),
            max_cost_micros: sent.max_cost_micros.unwrap_or(spec.max_cost.map(Micros::get)),
            callback: sent.callback.flatten(),
        }
    }
}

/// Whether a change only disables or pauses a schedule.
pub(super) fn only_stops(sent: &UpdateSchedule) -> bool {
    let UpdateSchedule {
        enabled,
        paused_until,
        name: None,
        workflow: None,
        cron: None,
        timezone: None,
        input: None,
        overlap: None,
        catch_up_window_seconds: None,
        jitter_seconds: None,
        max_consecutive_failures: None,
        max_cost_micros: None,
        callback: None,
    } = sent
    else {
        return false;
    };
    matches!(
        (enabled, paused_until),
        (Some(Some(false)), _) | (None, Some(Some(_)))
    )
}

/// Whether runs of `new` differ from runs of `old`, apart from their callback.
pub(super) fn runs_differ(old: &ScheduleSpec, new: &ScheduleSpec) -> bool {
    (&old.workflow, &old.input, old.max_cost) != (&new.workflow, &new.input, new.max_cost)
}

/// Reads the timetable of a stored schedule.
pub(super) fn timetable(spec: &ScheduleSpec) -> Result<Timetable, Refusal> {
    Timetable::new(&spec.cron, &spec.timezone)
        .map_err(|rule| Refusal::internal(format!("a saved timetable cannot be read: {rule}")))
}

/// Checks the fields of a schedule.
pub(super) fn checked(wanted: Wanted) -> Result<Checked, Refusal> {
    if let Some(name) = &wanted.name {
        let length = name.chars().count();
        if name.trim().is_empty() || length > limits::SCHEDULE_NAME_CHARS || !is_seen_whole(name) {
            return Err(broken(
                "name",
                format!(
                    "must be 1 to {} characters, not all blank, without control and invisible characters",
                    limits::SCHEDULE_NAME_CHARS
                ),
            ));
        }
    }
    let timetable = Timetable::new(&wanted.cron, &wanted.timezone)
        .map_err(|rule| ErrorCode::InvalidRequest.because(rule))?;
    let within = |field: &str, value: i64, (least, most): (i64, i64)| {
        if (least..=most).contains(&value) {
            Ok(())
        } else {
            Err(broken(field, format!("must be from {least} to {most}")))
        }
    };
    within(
        "catch_up_window_seconds",
        wanted.catch_up_window_seconds,
        (0, limits::CATCH_UP_SECONDS),
    )?;
    within(
        "jitter_seconds",
        wanted.jitter_seconds,
        (0, limits::JITTER_SECONDS),
    )?;
    if let Some(failures) = wanted.max_consecutive_failures {
        within(
            "max_consecutive_failures",
            failures,
            (1, limits::CONSECUTIVE_FAILURES),
        )?;
    }
    let max_cost = wanted
        .max_cost_micros
        .map(|micros| {
            within("max_cost_micros", micros, (1, limits::MAX_COST_MICROS))?;
            Micros::try_from(micros).map_err(|rule| broken("max_cost_micros", rule))
        })
        .transpose()?;
    Ok(Checked {
        spec: ScheduleSpec {
            name: wanted.name,
            workflow: wanted.workflow,
            cron: wanted.cron,
            timezone: timetable.zone_name().to_owned(),
            input: wanted.input,
            overlap: wanted.overlap,
            catch_up_window_seconds: wanted.catch_up_window_seconds,
            jitter_seconds: wanted.jitter_seconds,
            paused_until: wanted.paused_until,
            max_consecutive_failures: wanted.max_consecutive_failures,
            max_cost,
            callback: None,
        },
        enabled: wanted.enabled,
        callback: wanted.callback,
        timetable,
    })
}
