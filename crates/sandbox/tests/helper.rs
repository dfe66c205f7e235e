//! Helper processes: their abilities, the limits that end them, and the engine's view of that end.

use std::time::Duration;

use sortie_sandbox::{Helper, HelperError, HelperLimits};

const LIMITS: HelperLimits = HelperLimits {
    memory_bytes: 64 << 20,
    cpu_seconds: 60,
    time: Duration::from_mins(2),
    answer_bytes: 1 << 20,
};

async fn ask(input: &str, limits: HelperLimits) -> Result<String, HelperError> {
    let helper = Helper::new(env!("CARGO_BIN_EXE_sandbox-probe"), "helper");
    let (first, second) = input.as_bytes().split_at(input.len() / 2);
    let answer = helper.work(&[first, second], limits).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test]
async fn a_helper_answers_what_it_was_asked() {
    assert_eq!(ask("upper shout", LIMITS).await.unwrap(), "SHOUT");
    // More than a pipe holds, both ways.
    let long = "ä".repeat(1 << 18);
    assert_eq!(
        ask(&format!("upper {long}"), LIMITS).await.unwrap(),
        "Ä".repeat(1 << 18)
    );
}

#[tokio::test]
async fn a_helper_reaches_nothing() {
    assert_eq!(ask("reach", LIMITS).await.unwrap(), "environment: 0");
}

#[tokio::test]
async fn memory_beyond_the_limit_ends_the_helper_alone() {
    let ended = ask("eat", LIMITS).await;
    assert!(matches!(ended, Err(HelperError::Ended(_))), "{ended:?}");
}

#[tokio::test]
async fn processor_time_beyond_the_limit_ends_the_helper_alone() {
    let limits = HelperLimits {
        cpu_seconds: 1,
        ..LIMITS
    };
    let ended = ask("spin", limits).await;
    let by_signal = matches!(&ended, Err(HelperError::Ended(how)) if how == "signal 9");
    assert!(by_signal, "{ended:?}");
}

#[tokio::test]
async fn a_helper_that_takes_too_long_is_killed() {
    let limits = HelperLimits {
        time: Duration::from_millis(300),
        ..LIMITS
    };
    let ended = ask("spin", limits).await;
    assert!(matches!(ended, Err(HelperError::TimedOut(_))), "{ended:?}");
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_not_taken() {
    let limits = HelperLimits {
        answer_bytes: 1999,
        ..LIMITS
    };
    assert_eq!(ask("long x", limits).await.unwrap().len(), 1000);
    let ended = ask("long xx", limits).await;
    assert!(matches!(ended, Err(HelperError::TooLong(1999))), "{ended:?}");
}

#[tokio::test]
async fn a_helper_that_fails_or_cannot_be_started_is_an_error() {
    let ended = ask("crash now", LIMITS).await;
    assert!(matches!(ended, Err(HelperError::Ended(_))), "{ended:?}");
    let none = Helper::new("/nowhere/helper", "helper").work(&[], LIMITS).await;
    assert!(matches!(none, Err(HelperError::Start(_))), "{none:?}");
}
