//! Times of commands, and commands that outlast them.

use sortie_agent::runbook;
use sortie_sandbox::{AtTimeout, Command};

use crate::prelude::*;

/// Makes these calls, one per turn, in a run with so many seconds left. Returns the results and the commands that ran.
async fn told(
    left: u64,
    asked: &[(&str, Value)],
    behaviour: fn(&str) -> Does,
) -> (Vec<String>, Vec<Command>) {
    let backend = Pretended::new(&["bash"], behaviour);
    let mut script: Vec<_> = asked
        .iter()
        .map(|call| calls(std::slice::from_ref(call)).into())
        .collect();
    script.push(says("done").into());
    let model = Scripted::new(script);
    run_in(
        spec("Go.").until(Instant::now() + Duration::from_secs(left)),
        &model,
        &backend,
        &[],
    )
    .await;
    let told = model.asked().into_iter().skip(1).map(|asked| asked.last);
    (told.collect(), backend.commands())
}

#[tokio::test(start_paused = true)]
async fn a_command_that_names_no_time_gets_two_minutes_or_half_of_what_is_left() {
    for (left, seconds) in [(3_600, 120), (240, 120), (100, 50), (40, 10), (8, 2)] {
        let call = ("shell", json!({"command": "ls"}));
        let (_, commands) = told(left, &[call], |_| prints("")).await;
        assert_eq!(commands[0].timeout.as_secs(), seconds, "{left} s are left");
        assert_eq!(commands[0].at_timeout, AtTimeout::Release);
    }
}

#[tokio::test(start_paused = true)]
async fn no_command_takes_the_time_that_the_answer_needs() {
    let call = ("shell", json!({"command": "make", "timeout_seconds": 3_600}));
    let (told, commands) = told(100, &[call], |_| prints("made\n")).await;
    assert_eq!(commands[0].timeout, Duration::from_secs(70));
    assert_eq!(
        told[0],
        "[the command exited with status 0]\n[timeout_seconds was cut to 70: the run ends in 100 s]\n[stdout]\nmade\n"
    );
}

#[tokio::test]
async fn a_runbook_takes_the_whole_time_for_a_command_which_is_killed_after_it() {
    let backend = Pretended::new(&["bash"], |_| Does::Outlast(None));
    let spec = RunSpec {
        deadline: Some(Instant::now() + Duration::from_secs(100)),
        command_timeout: Duration::from_hours(1),
        ..spec("```sh\nsleep 9999\n```")
    };
    let (outcome, _) = run_in(spec, &*runbook(), &backend, &[]).await;
    assert_eq!(
        crate::support::failed(&outcome),
        "block 1 was stopped after 3600 s"
    );
    let commands = backend.commands();
    assert_eq!(
        (
            commands[0].timeout,
            commands[0].at_timeout,
            commands[0].store_bytes
        ),
        (Duration::from_hours(1), AtTimeout::Kill, 0)
    );
}

#[tokio::test]
async fn a_command_that_outlasts_its_time_is_a_job_that_is_told_of_and_looked_at() {
    let asked = [
        ("shell", json!({"command": "serve", "background": true})),
        ("jobs", json!({"job": 1, "wait_seconds": 60})),
        ("shell", json!({"command": "lost", "timeout_seconds": 5})),
        ("jobs", json!({"job": 2, "wait_seconds": 60})),
        ("read_file", json!({"path": ".sortie/output/1-job.log"})),
    ];
    let (told, commands) = told(3_600, &asked, |command| match command {
        "serve" => Does::Outlast(Some(Ok(ExitKind::Code(3)))),
        _ => Does::Outlast(Some(Err("its init died"))),
    })
    .await;
    assert_eq!(commands[0].timeout, Duration::from_secs(1));
    assert!(
        told[0].starts_with(
            "[the command still runs after 1 s]\n[it goes on as job 1; its output goes to .sortie/output/1-job.log."
        ) && told[0].ends_with("]\n[stdout]\nso far\n"),
        "{}",
        told[0]
    );
    assert!(
        told[1].starts_with("[job 1 exited with status 3 after ")
            && told[1].ends_with(" s]\n[its log is .sortie/output/1-job.log]\n[new output]\nand on\n"),
        "{}",
        told[1]
    );
    assert!(told[2].contains("goes on as job 2"), "{}", told[2]);
    assert!(
        told[3].starts_with("[job 2 ended with its sandbox, which was lost after "),
        "{}",
        told[3]
    );
    assert_eq!(told[4], "so far\nand on\n");
}

#[tokio::test]
async fn each_job_of_a_run_has_a_log_however_many_there_were() {
    let start = ("shell", json!({"command": "serve", "background": true}));
    let asked: Vec<_> = (1..=40)
        .flat_map(|job| [start.clone(), ("jobs", json!({"job": job, "wait_seconds": 60}))])
        .collect();
    let (told, _) = told(3_600, &asked, |_| Does::Outlast(Some(Ok(ExitKind::Code(0))))).await;
    for (number, started) in told.iter().step_by(2).enumerate() {
        let log = format!("its output goes to .sortie/output/{}-job.log", number + 1);
        assert!(started.contains(&log), "{started}");
    }
}

#[tokio::test]
async fn more_jobs_than_may_run_are_killed_when_their_time_is_up() {
    let start = ("shell", json!({"command": "serve", "background": true}));
    let mut asked = vec![start.clone(); 17];
    asked.push(("jobs", json!({"job": 4, "kill": true})));
    asked.push(start);
    let (told, commands) = told(3_600, &asked, |_| Does::Outlast(None)).await;
    let released = |command: &Command| command.at_timeout == AtTimeout::Release;
    assert!(commands[..16].iter().all(released));
    assert!(!released(&commands[16]) && released(&commands[17]));
    assert_eq!(
        told[16],
        "[the command was stopped after 1 s]\n[it was not made a job, because too many run: end one with `jobs`]\n\
         [stdout]\nso far\n"
    );
    assert!(told[17].starts_with("[job 4 was killed after "), "{}", told[17]);
    assert!(told[18].contains("it goes on as job 17"), "{}", told[18]);
}

#[tokio::test(start_paused = true)]
async fn a_model_is_told_once_of_a_job_that_has_ended() {
    let backend = Pretended::new(&["bash"], |command| match command {
        "serve" => Does::Outlast(Some(Ok(ExitKind::Code(0)))),
        _ => prints(""),
    });
    // The clock advances once nothing else is left to do: the job has ended by then.
    let later = |reply: Reply| Line {
        after: Duration::from_secs(1),
        ..reply.into()
    };
    let start = ("shell", json!({"command": "serve", "background": true}));
    let model = scripted![
        calls(&[start]),
        later(calls(&[("jobs", json!({}))])),
        later(calls(&[shell("ls")])),
        later(calls(&[shell("ls")])),
        says("done")
    ];
    run_in(spec("Go."), &model, &backend, &[]).await;
    let told: Vec<String> = model
        .asked()
        .into_iter()
        .skip(2)
        .map(|asked| asked.last)
        .collect();
    assert_eq!(
        told,
        [
            "job 1 exited with status 0 after 0 s; 7 bytes of new output; serve\n",
            "[the command exited with status 0]\n[job 1 exited with status 0: `jobs` has its output]\n",
            "[the command exited with status 0]\n",
        ]
    );
}

#[tokio::test]
async fn a_lost_sandbox_takes_its_jobs_along_and_says_so() {
    let call = ("shell", json!({"command": "x"}));
    let (told, _) = told(3_600, &[call], |_| Does::Lose).await;
    assert!(
        told[0].ends_with(
            "everything that ran in it has ended, jobs too; the files are kept, and the next command gets a new one"
        ),
        "{}",
        told[0]
    );
}

#[tokio::test]
async fn output_of_a_job_is_told_without_credentials() {
    let backend = Pretended::new(&["bash"], |_| Does::Outlast(Some(Ok(ExitKind::Code(0)))));
    let model = scripted![
        calls(&[("shell", json!({"command": "so far", "background": true}))]),
        calls(&[("jobs", json!({"job": 1, "wait_seconds": 60}))]),
        says("done")
    ];
    let spec = RunSpec {
        redactor: Arc::new(sortie_agent::Redactor::new(["and on"])),
        ..spec("Go.")
    };
    run_in(spec, &model, &backend, &[]).await;
    assert!(model.asked()[2].last.ends_with("[new output]\n[redacted]\n"));
}
