//! Limits of the API (`docs/API.md#limits`).

/// `prompt`, in bytes of UTF-8.
pub const PROMPT_BYTES: usize = 128 * 1024;
/// `instructions`, in bytes of UTF-8.
pub const INSTRUCTIONS_BYTES: usize = 64 * 1024;
/// `input`, in bytes of JSON as sent.
pub const INPUT_BYTES: usize = 1024 * 1024;
/// `output`, in bytes of UTF-8; a longer answer is cut.
pub const OUTPUT_BYTES: usize = 1024 * 1024;
/// Entries of `files`.
pub const FILES: usize = 32;
/// Inline file contents of a run together, in bytes.
pub const INLINE_FILES_BYTES: usize = 8 * 1024 * 1024;
/// A saved file's name, in bytes.
pub const FILE_NAME_BYTES: usize = 255;
/// A saved file, in bytes, where the configuration says nothing else.
pub const FILE_BYTES: u64 = 100 * 1024 * 1024;
/// Artifacts of a run.
pub const ARTIFACTS: usize = 64;
/// Artifacts of a run together, in bytes.
pub const ARTIFACT_BYTES: u64 = 100 * 1024 * 1024;
/// Entries of `web.allow`.
pub const WEB_DOMAINS: usize = 100;
/// Entries of `may` of a run token.
pub const RUN_PERMISSIONS: usize = 2;
/// Longest time for which a run token is valid, in seconds.
pub const RUN_TOKEN_SECONDS: i64 = 24 * 60 * 60;
/// Entries of `connections`.
pub const CONNECTIONS: usize = 16;
/// Saved connections of one organization.
pub const SAVED_CONNECTIONS: u32 = 1_000;
/// Saved workflows of one organization.
pub const SAVED_WORKFLOWS: u32 = 1_000;
/// Workflows that `used_by` of a connection or a file names.
pub const USED_BY: usize = 20;
/// A connection's `url`, `authorization_url` and `token_url`, in characters.
pub const CONNECTION_URL_CHARS: usize = 2_048;
/// Entries of a connection's `headers` and `env`.
pub const CONNECTION_HEADERS: usize = 32;
/// The name of a header, a query parameter, a variable or a tool of a connection, in bytes.
pub const CONNECTION_NAME_BYTES: usize = 128;
/// Credential of a connection (a token, a password, the value of a header), in bytes.
pub const CREDENTIAL_BYTES: usize = 8 * 1024;
/// Entries of a connection's `allowed_methods`: more than HTTP has.
pub const ALLOWED_METHODS: usize = 16;
/// Entries of a connection's `allowed_tools`.
pub const ALLOWED_TOOLS: usize = 100;
/// Entries of a connection's `command`.
pub const COMMAND_PARTS: usize = 64;
/// Entry of a connection's `command`, in bytes.
pub const COMMAND_PART_BYTES: usize = 4 * 1024;
/// Entries of a connection's `scopes`.
pub const SCOPES: usize = 50;
/// Time in which a person has to authorize a connection, in seconds.
pub const AUTHORIZATION_SECONDS: u64 = 600;
/// `description`, in characters.
pub const DESCRIPTION_CHARS: usize = 500;
/// A workflow's or connection's name, in characters.
pub const NAME_CHARS: usize = 100;
/// Budgets of one organization.
pub const BUDGETS: u32 = 1_000;
/// `limit_micros` of a budget, most: a thousand million dollars.
pub const BUDGET_MICROS: i64 = 1_000_000_000_000_000;
/// `timeout_seconds`, least.
pub const TIMEOUT_SECONDS_MIN: u32 = 1;
/// `timeout_seconds`, most.
pub const TIMEOUT_SECONDS_MAX: u32 = 3_600;
/// `timeout_seconds` when none is sent.
pub const TIMEOUT_SECONDS_DEFAULT: u32 = 300;
/// `max_steps`, most.
pub const MAX_STEPS: u32 = 1_000;
/// `max_steps` when none is sent.
pub const MAX_STEPS_DEFAULT: u32 = 200;
/// `max_cost_micros`, most.
pub const MAX_COST_MICROS: i64 = 100_000_000;
/// Entries of `tags`.
pub const TAGS: usize = 16;
/// Length of a tag, in characters.
pub const TAG_CHARS: usize = 64;
/// Entries of `metadata`.
pub const METADATA: usize = 16;
/// Length of a key of `metadata`, in characters.
pub const METADATA_KEY_CHARS: usize = 64;
/// Length of a value of `metadata`, in characters.
pub const METADATA_VALUE_CHARS: usize = 512;
/// Length of a run's title, in characters.
pub const TITLE_CHARS: usize = 120;
/// Part of a run's description and prompt that searches look at, in characters.
pub const SEARCH_TEXT_CHARS: usize = 2_000;
/// Length of a text that runs are searched for, in characters.
pub const SEARCH_CHARS: usize = 200;
/// Number of runs that one request cancels.
pub const CANCELLED_RUNS: u32 = 1_000;
/// Host and port of the receiver of a callback, in characters.
pub const RECEIVER_CHARS: usize = 300;
/// Number of ids that a list of runs may be filtered by.
pub const LISTED_IDS: usize = 100;
/// `Idempotency-Key`, in characters.
pub const IDEMPOTENCY_KEY_CHARS: usize = 200;
/// `input_schema` and `output_schema`, in bytes of JSON each.
pub const SCHEMA_BYTES: usize = 64 * 1024;
/// `callback.url`, in characters.
pub const CALLBACK_URL_CHARS: usize = 2_048;
/// `callback.secret`, in characters.
pub const CALLBACK_SECRET_CHARS: usize = 256;
/// Time after which a due callback is abandoned, in seconds: 72 hours.
pub const CALLBACK_SECONDS: u64 = 72 * 3_600;
/// Attempts to deliver a callback that are kept for each run: the newest.
pub const CALLBACK_ATTEMPTS: i64 = 200;
/// The whole body of a run request, in bytes: what the fields together may hold, with room for JSON escapes.
pub const BODY_BYTES: usize = 24 * 1024 * 1024;
/// `wait` of a read of a run, in seconds, most.
pub const WAIT_SECONDS: i64 = 60;
/// Runs, or entries of the audit log, on one page, most, and without pagination.
pub const PAGE: u32 = 100;
/// Schedules of one organization.
pub const SCHEDULES: u32 = 1_000;
/// A schedule's name, in characters.
pub const SCHEDULE_NAME_CHARS: usize = 200;
/// A schedule's `cron`, in bytes.
pub const CRON_BYTES: usize = 200;
/// A schedule's `timezone`, in bytes.
pub const TIMEZONE_BYTES: usize = 64;
/// A schedule's `catch_up_window_seconds`, most.
pub const CATCH_UP_SECONDS: i64 = 30 * 24 * 3_600;
/// A schedule's `catch_up_window_seconds` when none is sent.
pub const CATCH_UP_SECONDS_DEFAULT: i64 = 3_600;
/// A schedule's `jitter_seconds`, most.
pub const JITTER_SECONDS: i64 = 3_600;
/// A schedule's `max_consecutive_failures`, most.
pub const CONSECUTIVE_FAILURES: i64 = 100;
/// Instants of a schedule that are previewed, most.
pub const NEXT_FIRES: i64 = 100;
/// A key's name, in characters.
pub const KEY_NAME_CHARS: usize = 200;
/// Name of an organization or a person, in characters.
pub const PERSON_NAME_CHARS: usize = 200;
/// Email address, in bytes.
pub const EMAIL_BYTES: usize = 254;
/// Time for which an invitation can be accepted, in seconds.
pub const INVITATION_SECONDS: u64 = 7 * 86_400;
/// Open invitations of an organization, most.
pub const OPEN_INVITATIONS: u32 = 50;
/// Invitations of an organization in an hour, most.
pub const INVITATIONS_PER_HOUR: u32 = 20;
/// Organizations that a person creates in an hour, most.
pub const NEW_ORGANIZATIONS_PER_HOUR: u32 = 20;
/// Time for which a link to set a password works that the operator has made, in seconds.
pub const RESET_LINK_SECONDS: u64 = 86_400;
/// Reason of a suspension, in characters.
pub const SUSPENSION_REASON_CHARS: usize = 500;
/// Maximum time for which the secret before a rotation still works, in seconds.
pub const GRACE_SECONDS_MAX: i64 = 604_800;
/// See [`GRACE_SECONDS_MAX`].
pub const GRACE_SECONDS_DEFAULT: i64 = 3_600;
/// Seconds for which a license still allows runs after its end.
pub const LICENSE_GRACE_SECONDS: u64 = 14 * 86_400;
/// Maximum runs in a month that an operator grants.
pub const LICENSE_MONTHLY_RUNS: i64 = 1_000_000_000_000;
/// Maximum deployments that an operator grants.
pub const LICENSE_DEPLOYMENTS: i64 = 1_000;
/// Days of a license that an operator grants without an end.
pub const LICENSE_DAYS: u64 = 365;
/// Days that usage is asked for at once.
pub const USAGE_DAYS: i64 = 366;
/// Days that usage is told for when none are named.
pub const USAGE_DAYS_DEFAULT: i64 = 30;
/// Rows of one answer about usage.
pub const USAGE_ROWS: u32 = 10_000;
/// Requests a minute with a bearer credential.
pub const REQUESTS_PER_MINUTE: u32 = 600;
/// Requests a minute without a credential, per client address.
pub const ANONYMOUS_REQUESTS_PER_MINUTE: u32 = 120;

/// Whether a text can be a workflow's or connection's name: `[a-z0-9][a-z0-9._-]{0,99}`.
pub fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let starts_well = bytes
        .next()
        .is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let goes_on =
        bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'));
    starts_well && goes_on && text.len() <= NAME_CHARS
}

/// Least amount of a purchase of credits, in cents.
pub const PURCHASE_CENTS_MIN: i64 = 500;

/// Greatest amount of a purchase of credits, in cents.
pub const PURCHASE_CENTS_MAX: i64 = 1_000_000;

/// Payments on a page, where a request names no number.
pub const PAYMENTS_PAGE: u32 = 25;

/// Least threshold of automatic purchases of credits, in cents.
pub const TOPUP_THRESHOLD_CENTS_MIN: i64 = 500;

/// Greatest amount that the operator moves at once, in micros.
pub const MOVEMENT_MICROS_MAX: i64 = 1_000_000_000_000;

/// Most characters of the reason of a movement of credits.
pub const MOVEMENT_REASON_CHARS: usize = 500;

/// Most characters of the reference of a movement of credits.
pub const MOVEMENT_REFERENCE_CHARS: usize = 200;
