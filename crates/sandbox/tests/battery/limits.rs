//! Rows 43 to 56: limits of a run, and the effect of exceeding them.

use std::time::Duration;

use sortie_sandbox::{ExitKind, Limits};

use crate::harness::{Bed, Section, out};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn a_fork_bomb_is_bounded_and_ends_with_its_command(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open_within("run_1", |limits| limits.processes = 64).await;
        let finished = run.sh("./probe forks").await;
        let count: u32 = out(&finished).trim().parse().unwrap();
        assert!((20..=64).contains(&count), "{count} processes");
        assert!(
            run.processes().await >= count,
            "they live on, as any background process"
        );
        run.end().await;

        let mut run = bed.open_within("run_2", |limits| limits.processes = 64).await;
        run.timed_out("./probe bomb", SECOND, 3 * SECOND).await;
        assert_eq!(run.processes().await, 0);
        assert_eq!(
            run.sh("echo alive").await.exit,
            ExitKind::Code(0),
            "the sandbox goes on"
        );
        let finished = run
            .sh_for("bomb() { bomb | bomb & }; bomb; sleep 60", SECOND)
            .await;
        // The shell may exit when it cannot fork.
        assert!(
            matches!(finished.exit, ExitKind::TimedOut | ExitKind::Code(_)),
            "{finished:?}"
        );
        run.end().await;
    })
}

pub(crate) fn threads_are_bounded(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open_within("run_1", |limits| limits.processes = 64).await;
        let finished = run.sh("./probe threads").await;
        let count: u32 = out(&finished).trim().parse().unwrap();
        assert!((20..=64).contains(&count), "{count} threads");
        run.end().await;
    })
}

pub(crate) fn a_thousand_processes_end_with_their_command(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open_within("run_1", |limits| limits.processes = 1_100).await;
        let mut said = String::new();
        // A busy machine takes longer to create them.
        for seconds in [3, 6, 12] {
            let finished = run
                .timed_out("./probe sleepers 1000", seconds * SECOND, 5 * SECOND)
                .await;
            said = out(&finished);
            if !said.is_empty() {
                break;
            }
        }
        assert_eq!(said, "1000\n");
        assert_eq!(run.processes().await, 0);
        run.end().await;
    })
}

pub(crate) fn memory_is_bounded_however_it_is_taken(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed
            .open_within("run_1", |limits| {
                limits.memory_bytes = 128 << 20;
                limits.tmp_bytes = 512 << 20;
            })
            .await;
        let finished = run.sh("./probe heap 1024").await;
        assert_ne!(out(&finished), "held\n");
        assert_eq!(finished.exit, ExitKind::Memory, "one process");
        assert_eq!(
            run.sh("./probe heap 16").await.exit,
            ExitKind::Code(0),
            "the run goes on"
        );

        let finished = run.sh("./probe heaps 8 60").await;
        assert_eq!(
            finished.exit,
            ExitKind::Memory,
            "many processes, none over the limit: {finished:?}"
        );

        let finished = run.sh("./probe memfd 1024").await;
        assert_ne!(out(&finished), "held\n", "memory that no process maps");
        if bed.hard_memory() {
            assert_eq!(finished.exit, ExitKind::Memory);
            if bed.has_namespaces() {
                let finished = run.sh("cat /dev/zero > /tmp/full").await;
                assert_eq!(finished.exit, ExitKind::Memory, "files in memory");
            }
        } else {
            assert_eq!(finished.exit, ExitKind::Code(1), "there is no such memory");
        }
        run.sh("rm -f /tmp/full").await;
        assert_eq!(run.sh("echo alive").await.exit, ExitKind::Code(0));
        let told = run.sandbox.usage().await.unwrap().memory_bytes.unwrap();
        assert!(told < 128 << 20, "{told} bytes in use");
        run.end().await;
        if !cgroup_v2() {
            bed.not_checked(
                "memory.oom.group: this host's memory controller is not in control groups version 2",
            );
        }
    })
}

fn cgroup_v2() -> bool {
    std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").is_ok_and(|list| list.contains("memory"))
}

pub(crate) fn disk_is_bounded_in_bytes_and_in_files(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let limits = Limits {
            file_bytes: 80 << 20,
            disk_bytes: 160 << 20,
            ..Limits::default()
        };
        let mut run = bed.open("run_1", limits).await;
        let finished = run.sh("cat /dev/zero > big").await;
        assert!(
            matches!(finished.exit, ExitKind::Code(_) | ExitKind::Signal(_)),
            "one file: {finished:?}"
        );
        assert_eq!(std::fs::metadata(run.path.join("big")).unwrap().len(), 80 << 20);
        run.sh("rm big").await;
        let finished = run.sh("./probe files 40 16").await;
        assert_eq!(finished.exit, ExitKind::Disk, "many files: {finished:?}");
        assert!(run.sandbox.usage().await.unwrap().disk_bytes > 160 << 20);
        assert_eq!(
            run.sh("rm f*").await.exit,
            ExitKind::Code(0),
            "what is over the limit may still be deleted"
        );
        assert!(run.sandbox.usage().await.unwrap().disk_bytes < 160 << 20);
        assert_eq!(run.sh("echo x > small").await.exit, ExitKind::Code(0));
        run.end().await;

        let limits = Limits {
            disk_entries: 1_000,
            ..Limits::default()
        };
        let mut run = bed.open("run_2", limits).await;
        assert_eq!(run.sh("./probe folders 900").await.exit, ExitKind::Code(0));
        assert_eq!(
            run.sh("mkdir x && cd x && ../probe folders 20000").await.exit,
            ExitKind::Disk
        );
        run.end().await;

        // Also from the background, and hidden in a folder without permissions.
        let mut run = bed
            .open_within("run_3", |limits| limits.disk_bytes = 160 << 20)
            .await;
        let hidden = "mkdir d; cat /dev/zero > d/big & while [ ! -e d/big ]; do sleep 0.01; done; \
                      chmod 000 d; wait; sleep 2";
        assert_eq!(run.sh(hidden).await.exit, ExitKind::Disk);
        run.end().await;
    })
}

pub(crate) fn temporary_files_are_bounded(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed
            .open_within("run_1", |limits| {
                limits.tmp_bytes = 8 << 20;
                limits.disk_bytes = 160 << 20;
            })
            .await;
        if bed.has_namespaces() {
            let finished = run.sh("cat /dev/zero > /tmp/full; wc -c < /tmp/full").await;
            assert_eq!(out(&finished).trim(), (8 << 20).to_string());
            let finished = run
                .sh("cat /dev/zero > /dev/shm/full; wc -c < /dev/shm/full")
                .await;
            assert_eq!(out(&finished).trim(), (16 << 20).to_string());
            let finished = run.sh("df -k /tmp | tail -1").await;
            assert!(out(&finished).contains("100%"), "{finished:?}");
        } else {
            let finished = run.sh("cd $TMPDIR && $HOME/probe files 40 16").await;
            assert_eq!(
                finished.exit,
                ExitKind::Disk,
                "they count as the directory's: {finished:?}"
            );
        }
        run.end().await;
    })
}

pub(crate) fn descriptors_and_pipes_are_bounded(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open_within("run_1", |limits| limits.open_files = 256).await;
        let count: u32 = out(&run.sh("./probe descriptors").await).trim().parse().unwrap();
        assert!((200..256).contains(&count), "{count} descriptors");
        run.end().await;
        let mut run = bed.open("run_2", Limits::default()).await;
        let bytes: u64 = out(&run.sh("./probe pipes").await).trim().parse().unwrap();
        assert!((1 << 20..128 << 20).contains(&bytes), "{bytes} bytes in pipes");
        run.end().await;
    })
}

pub(crate) fn time_is_bounded(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        run.timed_out("while :; do :; done", SECOND, 2 * SECOND).await;
        assert_eq!(run.processes().await, 0);
        run.end().await;
    })
}
