//! Programs of packages that keep their configuration in `/etc`, the part of it that stays hidden, and runtimes that size their
//! heaps by the reported memory.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use sortie_sandbox::{Error, ExitKind, Limits, Options, Spec, Workdir, detect};
use sortie_testkit::rows;

use crate::harness::{Bed, Engine, PROBE, Run, Section, folder, out};

/// A program that is installed for the tests, a script, and its output.
const PROGRAMS: &[(&str, &str, &str)] = &rows! {
    "fc-match", "fc-match -f '%{file}' sans >found 2>said; test -s found && echo $(wc -l <said)", "0";
    "php", "php -r 'echo extension_loaded(\"ctype\"), php_ini_scanned_files() != \"\";'", "11";
};
/// Larger ones, which are tried if the machine has them.
const LARGE_PROGRAMS: &[(&str, &str, &str)] = &rows! {
    "mvn", "mvn -B -v 2>&1 | grep -c 'Apache Maven'", "1";
    "R", "R --vanilla -s -e 'cat(6 * 7, nchar(R.home()) > 0)'", "42 TRUE";
    "pdflatex",
    "printf '\\\\documentclass{article}\\\\begin{document}x\\\\end{document}' >d.tex; \
     pdflatex -interaction=batchmode d.tex >/dev/null && head -c 4 d.pdf",
    "%PDF";
    "soffice", "echo text >t.txt; soffice --headless --convert-to pdf t.txt >/dev/null 2>&1; head -c 4 t.pdf", "%PDF";
    "chromium",
    "chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --dump-dom \
     'data:text/html,<p>seen' 2>/dev/null | grep -o '<p>seen'",
    "<p>seen";
};

pub(crate) fn packages_find_their_configuration(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        let mut programs: Vec<_> = PROGRAMS
            .iter()
            .map(|program| (program, "is not installed"))
            .collect();
        // They take seconds, and need sockets and /proc.
        if bed.has_namespaces() && bed.pass.engine == Engine::AsTheSuite {
            programs.extend(
                LARGE_PROGRAMS
                    .iter()
                    .map(|program| (program, "is not on this machine")),
            );
        }
        for (&(program, script, expected), absent) in programs {
            if run.sh(&format!("command -v {program}")).await.exit == ExitKind::Code(0) {
                let finished = run.sh(script).await;
                assert_eq!(out(&finished).trim(), expected, "{program}: {finished:?}");
            } else {
                bed.not_checked(&format!("{program} {absent}"));
            }
        }
        run.end().await;
    })
}

/// Files and folders of the host that hold credentials, or may.
const HIDDEN: &str = "/etc/shadow /etc/shadow- /etc/gshadow /etc/sudoers /etc/sudoers.d /etc/ssh /etc/ssl/private \
    /etc/pki/tls/private /etc/cloud /etc/kubernetes /etc/docker /etc/credstore /etc/postgresql /etc/mysql /etc/ldap \
    /etc/apt /etc/machine-id /etc/environment /etc/profile /etc/gitconfig /etc/npmrc /etc/pip.conf /etc/wgetrc \
    /etc/gemrc /etc/maven/settings.xml /etc/R/Renviron.site /etc/R/Rprofile.site /etc/chromium.d/apikeys \
    /etc/php/*/cli/php.ini /etc/php/*/fpm";

pub(crate) fn what_may_hold_credentials_stays_hidden(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed.open("run_1", Limits::default()).await;
        // Names in folders can be seen at `landlock`, content cannot.
        let script = format!(
            "for f in {HIDDEN}; do if [ -d $f ]; then ls $f; else head -c 1 $f && echo $f; fi; done 2>/dev/null"
        );
        let finished = run.sh(&script).await;
        assert_eq!(out(&finished), "", "{finished:?}");
        let script =
            "for f in /etc/*; do test -d $f && touch $f/new; done 2>/dev/null; ls /etc/*/new 2>/dev/null";
        let finished = run.sh(script).await;
        assert_eq!(out(&finished), "", "{finished:?}");
        run.end().await;
    })
}

pub(crate) fn paths_of_the_operator_are_shown_read_only(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let (file, folder_of_host) = ("/etc/shells", "/etc/skel");
        if !Path::new(file).exists() || !Path::new(folder_of_host).join(".profile").exists() {
            bed.not_checked("this host has no /etc/shells or no /etc/skel/.profile");
            return;
        }
        let script = format!(
            "for f in {file} {folder_of_host}/.profile; do head -c 1 $f >c 2>/dev/null && wc -c <c; \
             (echo x >>$f) 2>/dev/null && echo written; done; touch {folder_of_host}/new 2>/dev/null && echo made; \
             rm {file} 2>/dev/null && echo removed; true"
        );
        let mut before = bed.open("run_0", Limits::default()).await;
        let finished = before.sh(&script).await;
        assert_eq!(out(&finished), "", "{finished:?}");
        before.end().await;
        let options = |readable: &[&Path]| Options {
            minimum: bed.pass.level,
            strongest: bed.pass.level,
            launcher: PathBuf::from(PROBE),
            passable: vec![bed.root.path().to_owned()],
            readable: readable.iter().map(|path| path.to_path_buf()).collect(),
            ..Options::new(bed.runs())
        };
        let backend = detect(&options(&[Path::new(file), Path::new(folder_of_host)]))
            .await
            .unwrap();
        let workdir = Workdir::create(&bed.runs(), "run_1").unwrap();
        let sandbox = backend.open(&workdir, Spec::default()).await.unwrap();
        let mut run = Run {
            path: bed.runs().join("run_1"),
            workdir,
            sandbox,
        };
        let finished = run.sh(&script).await;
        assert_eq!(out(&finished), "1\n1\n", "{finished:?}");
        run.end().await;

        let place = folder();
        let private = place.path().join("private");
        fs::write(&private, "secret").unwrap();
        fs::set_permissions(&private, fs::Permissions::from_mode(0o0)).unwrap();
        if is_unreadable(&private) {
            match detect(&options(&[&private])).await {
                Err(Error::Unavailable { reason, hint }) => {
                    assert!(
                        reason.contains("cannot read") && hint.contains("readable_paths"),
                        "{reason}. {hint}"
                    );
                }
                other => panic!("{:?}", other.map(|backend| backend.capabilities().clone())),
            }
        }
    })
}

/// Whether a file without any permission is refused: to the runs of root, which have other users, or to this user.
fn is_unreadable(path: &Path) -> bool {
    crate::harness::is_root() || fs::read(path).is_err()
}

/// Keeps 40 MiB, makes 1.5 GB of garbage, and uses what Java reads its configuration for. A heap sized by the memory of
/// the host would grow beyond 1 GiB.
const JAVA: &str = r#"
public class Garbage {
    public static void main(String[] arguments) throws Exception {
        byte[][] kept = new byte[40][];
        for (int i = 0; i < 1500; i++) {
            kept[i % 40] = new byte[1 << 20];
            kept[i % 40][i] = 1;
        }
        java.security.MessageDigest.getInstance("SHA-256").digest(kept[0]);
        System.out.println("lives");
    }
}
"#;
/// Runtimes, and a script that prints the largest size of their heaps in MiB.
const HEAPS: &[(&str, &str)] = &rows! {
    "java", "java -XX:+PrintFlagsFinal -version 2>/dev/null | awk '$2 == \"MaxHeapSize\" { print $4 / 1048576 }'";
    "node", "node -p 'v8.getHeapStatistics().heap_size_limit / 1048576'";
};

pub(crate) fn runtimes_live_within_the_memory_that_they_are_told_of(bed: &Bed) -> Section<'_> {
    Box::pin(async {
        let mut run = bed
            .open_within("run_1", |limits| limits.memory_bytes = 1 << 30)
            .await;
        let finished = run
            .sh("echo $(($(getconf _PHYS_PAGES) * $(getconf PAGESIZE))) $NODE_OPTIONS $GOMEMLIMIT")
            .await;
        assert_eq!(
            out(&finished),
            "1073741824 --max-old-space-size=768 768MiB\n",
            "{finished:?}"
        );
        for (program, script) in HEAPS {
            if run.sh(&format!("command -v {program}")).await.exit == ExitKind::Code(0) {
                let finished = run.sh(script).await;
                let heap: f64 = out(&finished).trim().parse().unwrap();
                assert!((200.0..900.0).contains(&heap), "{program}: {finished:?}");
            } else {
                bed.not_checked(&format!("{program} is not on this machine"));
            }
        }
        // It takes seconds, so that one pass alone does it.
        let is_tried = bed.has_namespaces() && bed.pass.engine == Engine::Unprivileged;
        if is_tried && run.sh("command -v javac").await.exit == ExitKind::Code(0) {
            fs::write(run.path.join("Garbage.java"), JAVA).unwrap();
            let finished = run
                .sh_for(
                    "java -XX:TieredStopAtLevel=1 Garbage.java",
                    Duration::from_mins(3),
                )
                .await;
            assert_eq!(
                (
                    finished.exit,
                    out(&finished).as_str(),
                    finished.stderr.total_bytes
                ),
                (ExitKind::Code(0), "lives\n", 0),
                "{finished:?}"
            );
        }
        run.end().await;
    })
}
