//! Rows 64 to 66, that a directory is reopened after a restart, and that ordinary programs still work.

use sortie_sandbox::{EntryKind, ExitKind, FileError, Limits, RelPath, Spec, Workdir};
use sortie_testkit::rows;

use crate::harness::{Bed, Run, Section, out};

pub(crate) fn whatever_was_left_behind_is_measured_and_deleted(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let path = |text: &str| RelPath::new(text).unwrap();
        run.workdir.write(&path("from/the/engine"), b"to change").unwrap();
        let script = "echo changed > from/the/engine && mkfifo pipe && ln -s /etc/shadow shadow && \
                      ln -s .. up && ln -s /proc/self/environ environ && echo x > plain";
        let finished = run.sh(script).await;
        assert_eq!(finished.exit, ExitKind::Code(0), "{finished:?}");
        assert_eq!(
            run.workdir.read(&path("from/the/engine"), 100).unwrap(),
            b"changed\n"
        );
        assert!(matches!(
            run.workdir.read(&path("pipe"), 100),
            Err(FileError::NotAFile)
        ));
        for link in ["shadow", "environ", "up/run_2/file", "up"] {
            assert!(
                matches!(run.workdir.read(&path(link), 100), Err(FileError::Escapes)),
                "{link}"
            );
        }
        let finished = run.sh("./probe deep 1500").await;
        assert_eq!(
            (finished.exit, out(&finished).as_str()),
            (ExitKind::Code(0), "made\n"),
            "{finished:?}"
        );
        let usage = run.sandbox.usage().await.unwrap();
        assert!(usage.disk_bytes > 1_500 * 512, "{usage:?}");
        let (entries, _cut) = run.workdir.list(None, 3, 1_000).unwrap();
        assert!(
            entries
                .iter()
                .any(|entry| entry.kind == EntryKind::Other && entry.path == "pipe")
        );
        assert!(entries.iter().any(|entry| entry.path == "line\nbreak"));
        assert!(entries.iter().any(|entry| entry.path.contains('\u{FFFD}')));
        run.end().await;
    })
}

pub(crate) fn a_run_goes_on_in_its_directory_after_a_restart(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        run.workdir
            .write(&RelPath::new("engine's").unwrap(), b"1")
            .unwrap();
        let script = "mkdir -p made/closed && echo one > made/file && echo x > made/closed/file && \
                      ln -s made/file link && echo x > $TMPDIR/temporary && chmod 500 made/closed && chmod 777 .";
        assert_eq!(run.sh(script).await.exit, ExitKind::Code(0));
        // Like an engine that dies: everything in the sandbox is killed, the directory stays.
        let Run {
            path,
            workdir,
            sandbox,
        } = run;
        sandbox.close().await.unwrap();
        drop(workdir);
        let mut other = bed.open("run_2", Limits::default()).await;

        let workdir = Workdir::reopen(&bed.runs(), "run_1").unwrap().unwrap();
        let sandbox = bed.backend.open(&workdir, Spec::default()).await.unwrap();
        let mut run = Run {
            path,
            workdir,
            sandbox,
        };
        let script = "cat made/file link made/closed/file && echo two > made/file && echo 2 > \"engine's\" && \
                      chmod 700 made/closed && rm -r made/closed && test ! -e $TMPDIR/temporary && ./probe orphans 1";
        let finished = run.sh(script).await;
        assert_eq!(
            (finished.exit, out(&finished).as_str()),
            (ExitKind::Code(0), "one\none\nx\n"),
            "{finished:?}"
        );
        let read = |name: &str| run.workdir.read(&RelPath::new(name).unwrap(), 10).unwrap();
        assert_eq!(
            [read("made/file"), read("engine's")],
            [b"two\n".to_vec(), b"2\n".to_vec()]
        );
        let peek = format!("cat {}/made/file", run.path.display());
        assert_ne!(
            other.sh(&peek).await.exit,
            ExitKind::Code(0),
            "it is private again"
        );
        other.end().await;
        run.end().await;
    })
}

/// A tool, a script that uses it, and its output.
const TOOLS: &[(&str, &str, &str)] = &rows! {
    "git",
    "git init -q g && cd g && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x \
     && git log --oneline | wc -l",
    "1";
    "python3",
    "python3 -c 'import subprocess,json; \
         print(subprocess.run([\"echo\",\"ok\"],capture_output=True,text=True).stdout.strip())'",
    "ok";
    "gcc", "printf 'int main(){return 7;}' > m.c && gcc m.c -o m && (./m; echo $?)", "7";
    "make",
    "printf 'a b c:\\n\\techo $@ > $@\\nall: a b c\\n' > Makefile && make -sj3 all && cat a b c | tr -d '\\n'",
    "abc";
    "sqlite3", "sqlite3 d.db 'create table t(x); insert into t values(6*7); select x from t'", "42";
    "node", "node -e 'console.log(6*7, require(\"os\").tmpdir()==process.env.TMPDIR)'", "42 true";
    "mktemp", "f=$(mktemp) && echo made > $f && cat $f && rm $f", "made";
    "nice", "nice -n 19 nice", "19";
    "taskset", "taskset 1 nproc", "1";
    "bash", "bash -c 'set -m; sleep 0.1 & wait %1; echo $?; jobs'", "0";
    "sync", "sync && echo in time", "in time";
    "python3",
    "python3 -c 'import tempfile as t, os; t.NamedTemporaryFile().close(); \
         print(len(os.sched_getaffinity(0)) > 0)'",
    "True";
};

pub(crate) fn ordinary_tools_work(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let finished = run
            .sh("set -e; printf 'b\\na\\n' | sort > s; cat s; mkdir -p d/e; mv s d/e/; cp -r d f; rm -r d; \
                 find f -type f | wc -l; tar cf t.tar f; tar tf t.tar | tail -1; awk 'BEGIN{print 6*7}'; \
                 echo data > $TMPDIR/x; cat $TMPDIR/x; cat < /dev/null; echo out > /dev/null; pwd | grep -c /")
            .await;
        assert_eq!(out(&finished), "a\nb\n1\nf/e/s\n42\ndata\n1\n", "{finished:?}");
        for &(tool, script, expected) in TOOLS {
            if run.sh(&format!("command -v {tool}")).await.exit == ExitKind::Code(0) {
                let finished = run.sh(script).await;
                assert_eq!(out(&finished).trim(), expected, "{tool}: {finished:?}");
            } else {
                bed.not_checked(&format!("{tool} is not installed"));
            }
        }
        if bed.has_namespaces() {
            let finished = run
                .sh("ps ax | wc -l; id -un; cat /proc/self/uid_map | tr -s ' '")
                .await;
            assert!(out(&finished).contains("agent"), "{finished:?}");
            // Needs `/dev/shm`.
            let finished = run
                .sh("command -v python3 >/dev/null || exit 9; \
                     python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, 2]))'")
                .await;
            assert!(
                finished.exit == ExitKind::Code(9) || out(&finished) == "[1, 2]\n",
                "{finished:?}"
            );
        }
        run.end().await;
    })
}
