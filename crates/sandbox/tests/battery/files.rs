//! Rows 64 to 66, and that ordinary programs still work.

use sortie_sandbox::{EntryKind, ExitKind, FileError, Limits, RelPath};

use crate::harness::{Bed, Section, out};

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

pub(crate) fn ordinary_tools_work(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let finished = run
            .sh("set -e; printf 'b\\na\\n' | sort > s; cat s; mkdir -p d/e; mv s d/e/; cp -r d f; rm -r d; \
                 find f -type f | wc -l; tar cf t.tar f; tar tf t.tar | tail -1; awk 'BEGIN{print 6*7}'; \
                 echo data > $TMPDIR/x; cat $TMPDIR/x; cat < /dev/null; echo out > /dev/null; pwd | grep -c /")
            .await;
        assert_eq!(out(&finished), "a\nb\n1\nf/e/s\n42\ndata\n1\n", "{finished:?}");
        for (tool, script, expected) in [
            (
                "git",
                "git init -q g && cd g && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x \
                     && git log --oneline | wc -l",
                "1",
            ),
            (
                "python3",
                "python3 -c 'import subprocess,json; \
                         print(subprocess.run([\"echo\",\"ok\"],capture_output=True,text=True).stdout.strip())'",
                "ok",
            ),
            (
                "gcc",
                "printf 'int main(){return 7;}' > m.c && gcc m.c -o m && (./m; echo $?)",
                "7",
            ),
        ] {
            if run.sh(&format!("command -v {tool}")).await.exit == ExitKind::Code(0) {
                let finished = run.sh(script).await;
                assert_eq!(out(&finished).trim(), expected, "{tool}: {finished:?}");
            } else {
                bed.not_checked(&format!("{tool}: not installed on this host"));
            }
        }
        if bed.has_namespaces() {
            let finished = run
                .sh("ps ax | wc -l; id -un; cat /proc/self/uid_map | tr -s ' '")
                .await;
            assert!(out(&finished).contains("agent"), "{finished:?}");
        }
        run.end().await;
    })
}
