//! Row 51 in every way that a walk of the folders does not find: reserved space, files that are moved or made inaccessible during
//! a check, and files without a name.

use sortie_sandbox::{ExitKind, Finished, Limits};

use crate::harness::{Bed, Section, out, tell};

/// The limit of these runs, in mebibytes.
const LIMIT: u64 = 192;

fn limits() -> Limits {
    Limits {
        disk_bytes: LIMIT << 20,
        file_bytes: 1 << 30,
        ..Limits::default()
    }
}

/// The limit of runs with files in folders. It is larger, so that writes between two looks are a smaller part of it.
const LARGER_LIMIT: u64 = 512;

/// Minimum milliseconds that a helper takes per mebibyte. At full speed it would exceed any bound while the watch waits for the
/// processor.
const PACE: u32 = 1;

/// The pace if only the second check finds the use.
const SLOW_PACE: u32 = 2;

/// Tries to hold four times the limit at a pace, and prints the amount reached, which must be less than `times` the limit.
async fn takes(bed: &Bed, way: &str, (limit, times): (u64, u64), pace: u32) {
    let limits = Limits {
        disk_bytes: limit << 20,
        ..limits()
    };
    let mut run = bed.open("run_1", limits).await;
    let finished = run.sh(&format!("./probe disk {way} {} {pace}", 4 * limit)).await;
    let held = mebibytes(&finished);
    tell(&format!(
        "{}: {way}: {held} MiB of {limit}, {:?} attempts held\n",
        bed.test, finished.exit
    ));
    assert_eq!(finished.exit, ExitKind::Disk, "{way}: {held} MiB");
    assert!(held < times * limit, "{way}: {held} MiB");
    assert_eq!(
        run.sh("chmod -f 700 shut; rm -rf [a-z]").await.exit,
        ExitKind::Code(0)
    );
    run.end().await;
}

/// Consecutive commands, each of which tries to write several times the limit. The amounts that each could write before a check
/// would add up to more than is allowed.
const COMMANDS: u32 = 8;

/// The last number that the helper printed.
fn mebibytes(finished: &Finished) -> u64 {
    let kept = [&finished.stdout.head[..], &finished.stdout.tail].concat();
    let said = String::from_utf8_lossy(&kept).into_owned();
    said.lines()
        .filter_map(|line| line.parse().ok())
        .max()
        .unwrap_or(0)
}

pub(crate) fn space_is_not_set_aside(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", limits()).await;
        let finished = run.sh("./probe disk allocate 1000 0").await;
        let refused = [libc::EOPNOTSUPP; 5];
        assert_eq!(
            out(&finished).lines().take(2).collect::<Vec<_>>(),
            ["allocated 0", &format!("refused {refused:?}")],
            "{finished:?}"
        );
        // The C library writes zeroes instead, and holes can be punched.
        let finished = run.sh("./probe disk reserve 16 0").await;
        assert_eq!(out(&finished), "16\nheld\n", "{finished:?}");
        run.end().await;
    })
}

pub(crate) fn what_is_moved_during_a_look_is_counted(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        takes(bed, "plain", (LARGER_LIMIT, 2), PACE).await;
        takes(bed, "juggle", (LARGER_LIMIT, 2), PACE).await;
        takes(bed, "dodge", (LARGER_LIMIT, 2), PACE).await;
        takes(bed, "shut", (LARGER_LIMIT, 2), SLOW_PACE).await;
    })
}

pub(crate) fn deleted_files_are_counted(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        for way in [
            "unlinked",
            "undumpable",
            "mapped",
            "in-flight",
            "headless",
            "headless-mapped",
            "program",
        ] {
            if way == "in-flight" && !bed.has_namespaces() && !bed.hard_memory() {
                // Descriptors cannot be sent there.
                let mut run = bed.open("run_1", limits()).await;
                let finished = run.sh("./probe disk in-flight 1 0").await;
                assert_eq!(finished.exit, ExitKind::Code(1), "{finished:?}");
                run.end().await;
                continue;
            }
            // Concurrent deletions by others temporarily hide the space that this run takes.
            takes(bed, way, (LIMIT, 3), PACE).await;
        }
    })
}

/// At the level `landlock`, the working directory and the `/dev/shm` of the run are one file system here.
pub(crate) fn deleted_files_are_counted_in_memory(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let Some(bed) = bed.in_memory((4 * LIMIT) << 20).await else {
            return;
        };
        takes(&bed, "mapped", (LIMIT, 3), PACE).await;
    })
}

/// Folders appear and disappear during each check of an ordinary build, too.
pub(crate) fn what_moves_within_the_limit_goes_on(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", limits()).await;
        let finished = run.sh(&format!("./probe disk churn {} 0", LIMIT - 32)).await;
        assert_eq!(finished.exit, ExitKind::Code(0), "{finished:?}");
        run.end().await;
    })
}

pub(crate) fn commands_after_the_limit_do_not_add_up(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", limits()).await;
        let made = run
            .sh("for a in $(seq 60); do mkdir t$a; (cd t$a; mkdir $(seq 60)); done")
            .await;
        assert_eq!(made.exit, ExitKind::Code(0), "{made:?}");
        let mut before = 0;
        let mut largest_step = 0;
        for number in 0..COMMANDS {
            let script = format!(
                "mkdir d{number}; cd d{number}; ../probe disk plain {} 0",
                4 * LIMIT
            );
            let finished = run.sh(&script).await;
            assert_ne!(finished.exit, ExitKind::Code(0), "{finished:?}");
            let bytes = run.sandbox.usage().await.unwrap().disk_bytes;
            // The first command has the whole limit.
            let already = if number == 0 { LIMIT << 20 } else { before };
            largest_step = largest_step.max(bytes.saturating_sub(already));
            before = bytes;
        }
        // A command that starts above this writes nothing. Names of empty files and folders take some blocks.
        let most = (LIMIT << 20) * 5 / 4 + largest_step + (4 << 20);
        tell(&format!(
            "{}: {} MiB after {COMMANDS} commands, attempts held\n",
            bed.test,
            before >> 20
        ));
        assert!(before < most, "{before} bytes, {largest_step} at once");
        // A command is killed for the bytes it adds above the limit, even if it takes only a moment.
        assert_eq!(run.sh("mkdir more").await.exit, ExitKind::Disk);
        // Deleting many folders makes walks find folders that vanish.
        let finished = run.sh("rm -rf t* d* more").await;
        assert_eq!(finished.exit, ExitKind::Code(0), "{finished:?}");
        assert_eq!(run.sh("echo x > small").await.exit, ExitKind::Code(0));
        run.end().await;
    })
}
