//! Runs that an engine of one command leaves, and the next engine that resumes them.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_of_one_command_resumes_what_another_one_has_left_when_it_is_asked() {
    let own_runs = |options: &mut Options| options.serves = Serves::OwnRuns;
    let rig = Rig::start_with(own_runs).await;
    let run = shut_down_under_a_run(&rig).await;
    assert_eq!(run.status, RunStatus::Running);
    let rig = rig.restart(own_runs).await;
    assert_eq!(rig.engine.unattended(vec![run.id]).await.unwrap(), [run.id]);
    rig.engine.resume([run.id]);
    rig.until_event(&run, "resumed").await;
    assert_eq!(rig.engine.unattended(vec![run.id]).await.unwrap(), []);
    rig.engine.shutdown().await;
    let rig = rig.restart(own_runs).await;
    assert_eq!(rig.status(&run).await.status, RunStatus::Running);
}

/// The command that started the run asks the next engine for it.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_of_one_command_resumes_the_run_of_an_idempotency_key() {
    let own_runs = |options: &mut Options| options.serves = Serves::OwnRuns;
    let mut rig = Rig::start_with(own_runs).await;
    let ask = async |rig: &Rig| {
        let run = rig.create_once(prompt(WAITS), Some("k".to_owned())).await;
        run.unwrap()
    };
    let run = ask(&rig).await;
    let run = shut_down_under(&rig, run).await;
    rig = rig.restart(own_runs).await;
    assert_eq!(ask(&rig).await.id, run.id);
    rig.until_event(&run, "resumed").await;
    rig.engine.shutdown().await;
    // A run that no engine has started is claimed.
    rig = rig.restart(|options| options.serves = Serves::Nothing).await;
    let waits = rig.create(prompt("later")).await.unwrap();
    rig.engine.shutdown().await;
    rig = rig.restart(own_runs).await;
    assert_eq!(rig.engine.unattended(vec![waits.id]).await.unwrap(), [waits.id]);
    rig.engine.resume([waits.id]);
    let (_, done) = rig.follow(&waits, 0).await;
    assert_eq!(done.and_then(|run| run.output).as_deref(), Some("later"));
}
