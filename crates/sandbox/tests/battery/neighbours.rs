//! Row 71, and two runs of two organizations at once.

use std::time::Duration;

use futures_util::future::join_all;
use sortie_sandbox::{ExitKind, Limits, Spec, Workdir};

use crate::harness::{Bed, Section, marked, out, sh, wait_for_one};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn two_runs_see_nothing_of_each_other(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut one = bed.open("run_of_one", Limits::default()).await;
        let mut two = bed.open("run_of_two", Limits::default()).await;
        let mark = format!(
            "secret-argument-{}-{}",
            std::process::id(),
            bed.test.replace("::", "-")
        );
        let start = format!(
            "echo mine > file; chmod 777 . file; echo mine > $TMPDIR/file; \
             sh -c 'sleep 300; :' {mark} > /dev/null 2>&1 &"
        );
        assert_eq!(one.sh(&start).await.exit, ExitKind::Code(0));
        // By the process id that the host uses for the other's process.
        let theirs = wait_for_one(&mark);
        let script = format!(
            "kill -9 {theirs} 2>/dev/null && echo killed; cat /proc/{theirs}/environ 2>/dev/null; \
             cat {path}/file {path}.tmp/file /tmp/file 2>/dev/null; ls {path} 2>/dev/null; ls ../run_of_one 2>/dev/null; \
             ps axww 2>/dev/null | grep '[s]ecret-argument'; kill -9 -1 2>/dev/null; true",
            path = one.path.display(),
        );
        let finished = two.sh(&script).await;
        assert_eq!(out(&finished), "", "{finished:?}");
        assert_eq!(wait_for_one(&mark), theirs, "the other's process lives");
        assert_eq!(out(&one.sh("cat file $TMPDIR/file").await), "mine\nmine\n");
        one.end().await;
        two.end().await;
        assert!(marked(&mark).is_empty());
    })
}

pub(crate) fn a_hundred_sandboxes_at_once(bed: &Bed) -> Section<'_> {
    Box::pin(async move {
        let runs = (0..100).map(|number| async move {
            let workdir = Workdir::create(&bed.runs(), &format!("run_{number}")).unwrap();
            let mut sandbox = bed.backend.open(&workdir, Spec::default()).await.unwrap();
            let finished = sandbox
                .exec(sh("echo hello > file; cat file", 60 * SECOND))
                .await
                .unwrap();
            assert_eq!(
                (finished.exit, out(&finished).as_str()),
                (ExitKind::Code(0), "hello\n")
            );
            sandbox.close().await.unwrap();
            workdir.delete().unwrap();
        });
        join_all(runs).await;
    })
}
