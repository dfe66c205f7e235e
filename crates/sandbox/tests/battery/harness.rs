//! Harness of a section: the host, the user and the target of its runs.

use std::{
    fs::{DirBuilder, File},
    future::Future,
    io::Write,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    pin::Pin,
    process::{Command as Process, Output},
    sync::Arc,
    time::{Duration, Instant},
};

use sortie_sandbox::{
    AtTimeout, Backend, Command, Enforcement, Error, ExitKind, Finished, Level, Limits, Options, Sandbox,
    Spec, Workdir, detect,
};

pub(crate) const PROBE: &str = env!("CARGO_BIN_EXE_sandbox-probe");
/// Working directories lie on a disk here, as in production. `/tmp` may be in memory.
const ON_DISK: &str = "/var/tmp";
const IN_MEMORY: &str = "/dev/shm";
const INSIDE: &str = "SORTIE_BATTERY_INSIDE";
/// Switch for a machine that supports every level. It is not a part of `SORTIE_TEST_PACKAGES`, which is about packages that could
/// be installed: a level that the kernel denies cannot be.
const STRICT: &str = "SORTIE_TEST_STRICT";
/// Timeout for a prompt event on a busy machine; it normally takes milliseconds.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// An ordinary user without any process or file, not even of another test that runs at the same time: if a sandbox shares its
/// user, their processes would count as its own.
pub(crate) fn nobody() -> u32 {
    30_000 + std::process::id() % 10_000
}

/// User that the engine runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    AsTheSuite,
    Unprivileged,
}

/// A pass through the battery; there are four.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    pub(crate) level: Level,
    pub(crate) engine: Engine,
}

pub(crate) type Section<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

impl Pass {
    /// Runs a section, in a separate process if another host or user is needed.
    pub(crate) fn run(self, test: &str, section: for<'a> fn(&'a Bed) -> Section<'a>) {
        if !is_inside() && self.needs_another_process() {
            if self.engine == Engine::Unprivileged && !is_root() {
                tell(&format!(
                    "{test}: the suite is unprivileged: this is the pass above\n"
                ));
            }
            return self.run_elsewhere(test);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let Some(bed) = Bed::make(self, test, ON_DISK).await else {
                return;
            };
            section(&bed).await;
        });
    }

    fn needs_another_process(self) -> bool {
        self.level == Level::Landlock || (self.engine == Engine::Unprivileged && is_root())
    }

    fn run_elsewhere(self, test: &str) {
        let mut host = Vec::new();
        if self.level == Level::Landlock {
            host.push("deny-namespaces".to_owned());
        }
        if self.engine == Engine::Unprivileged && is_root() {
            host.push(format!("uid={}", nobody()));
        }
        let exe = std::env::current_exe().unwrap();
        let output = on_host(
            &host,
            &[exe.to_str().unwrap(), "--exact", test, "--nocapture"],
            |_| {},
        );
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        said.lines()
            .filter(|line| line.contains("NOT CHECKED") || line.ends_with("attempts held"))
            .for_each(|line| tell(&format!("{line}\n")));
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{test} on another host:\n{said}"
        );
    }
}

/// Runs a program on a host with fewer rights, as `sandbox-probe host` creates them.
pub(crate) fn on_host(host: &[String], program: &[&str], configure: impl FnOnce(&mut Process)) -> Output {
    #[expect(clippy::disallowed_methods, reason = "the battery starts its own engines")]
    let mut process = Process::new(PROBE);
    process
        .arg("host")
        .args(host)
        .arg("--")
        .args(program)
        .env(INSIDE, "1")
        .current_dir("/");
    configure(&mut process);
    process.output().unwrap()
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[expect(clippy::disallowed_methods, reason = "the battery talks to its own processes")]
fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

#[expect(clippy::disallowed_methods, reason = "the suite's own switch")]
fn is_strict() -> bool {
    std::env::var_os(STRICT).is_some()
}

/// Whether the host refused: a sandbox that opens but is not confined is no reason to skip checks.
fn is_refusal(reason: &str) -> bool {
    ["this host ", "this kernel ", "the engine is root "]
        .iter()
        .any(|start| reason.starts_with(start))
}

/// Prints past the output capture of the test harness.
pub(crate) fn tell(line: &str) {
    let _nobody_may_listen = std::io::stderr().write_all(line.as_bytes());
}

/// A backend, and a folder for its working directories.
pub(crate) struct Bed {
    pub(crate) pass: Pass,
    pub(crate) test: String,
    pub(crate) root: tempfile::TempDir,
    pub(crate) backend: Arc<dyn Backend>,
    // Open without close-on-exec since before the launcher was executed, like a descriptor that a careless library leaks to every
    // child.
    _leaked: File,
}

impl Bed {
    async fn make(pass: Pass, test: &str, place: &str) -> Option<Self> {
        let root = folder_in(place);
        // The mode of a node's data folder.
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let leaked = File::open(root.path()).unwrap();
        rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
        let options = Options {
            minimum: pass.level,
            launcher: PathBuf::from(PROBE),
            passable: vec![root.path().to_owned()],
            ..Options::new(root.path().join("runs"))
        };
        DirBuilder::new().mode(0o700).create(&options.root).unwrap();
        match detect(&options).await {
            Ok(backend) => {
                assert_eq!(
                    backend.capabilities().level,
                    pass.level,
                    "{:?}",
                    backend.capabilities()
                );
                Some(Self {
                    pass,
                    test: test.to_owned(),
                    root,
                    backend,
                    _leaked: leaked,
                })
            }
            Err(Error::Unavailable { reason, .. }) if is_refusal(&reason) && !is_strict() => {
                tell(&format!("NOT CHECKED: {test}: {reason}\n"));
                None
            }
            Err(error) => panic!("{test}: {error}"),
        }
    }

    /// A bed of the same kind with working directories in memory, as for runs with zero data retention. `None` if that file
    /// system has fewer than this many bytes free, or forbids executing programs.
    pub(crate) async fn in_memory(&self, bytes: u64) -> Option<Self> {
        let system = rustix::fs::statvfs(IN_MEMORY).unwrap();
        if system.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC) {
            self.not_checked("this host starts no programs in /dev/shm");
            return None;
        }
        if system.f_bavail * system.f_frsize < bytes {
            self.not_checked("this host has too little free space in /dev/shm");
            return None;
        }
        Self::make(self.pass, &self.test, IN_MEMORY).await
    }

    pub(crate) fn not_checked(&self, what: &str) {
        tell(&format!("NOT CHECKED: {}: {what}\n", self.test));
    }

    pub(crate) fn hard_memory(&self) -> bool {
        self.backend.capabilities().memory == Enforcement::Hard
    }

    pub(crate) fn has_namespaces(&self) -> bool {
        self.pass.level == Level::Namespaces
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.root.path().join("runs")
    }

    /// Opens the sandbox of a run, with the helper in its directory.
    pub(crate) async fn open(&self, name: &str, limits: Limits) -> Run {
        let spec = Spec {
            limits,
            ..Spec::default()
        };
        self.open_with(name, spec).await
    }

    /// Opens the sandbox of a run with changed limits.
    pub(crate) async fn open_within(&self, name: &str, change: impl FnOnce(&mut Limits)) -> Run {
        let mut limits = Limits::default();
        change(&mut limits);
        self.open(name, limits).await
    }

    pub(crate) async fn open_with(&self, name: &str, spec: Spec) -> Run {
        let workdir = Workdir::create(&self.runs(), name).unwrap();
        let path = self.runs().join(name);
        std::fs::copy(PROBE, path.join("probe")).unwrap();
        std::fs::set_permissions(path.join("probe"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let sandbox = self.backend.open(&workdir, spec).await.unwrap();
        Run {
            path,
            workdir,
            sandbox,
        }
    }
}

/// Run of the battery: its directory and its sandbox.
pub(crate) struct Run {
    pub(crate) path: PathBuf,
    pub(crate) workdir: Workdir,
    pub(crate) sandbox: Box<dyn Sandbox>,
}

impl Run {
    pub(crate) async fn sh(&mut self, script: &str) -> Finished {
        self.sh_for(script, Duration::from_mins(1)).await
    }

    pub(crate) async fn sh_for(&mut self, script: &str, timeout: Duration) -> Finished {
        self.sandbox.exec(sh(script, timeout)).await.unwrap()
    }

    /// Runs a script that does not end until its timeout; it is dead no later than `killing` after that. One of three tries has
    /// to be in time: a busy machine is late now and then, but a real delay affects each try.
    pub(crate) async fn timed_out(&mut self, script: &str, timeout: Duration, killing: Duration) -> Finished {
        let mut times = Vec::new();
        for _ in 0..3 {
            let finished = self.sh_for(script, timeout).await;
            assert_eq!(finished.exit, ExitKind::TimedOut, "{script}");
            assert!(finished.duration >= timeout, "{:?}", finished.duration);
            if finished.duration < timeout + killing {
                return finished;
            }
            times.push(finished.duration);
        }
        panic!("{script}: {times:?}");
    }

    /// Runs a script until it has written a line to this file of its directory, and then drops it, which kills it. Returns the
    /// line.
    pub(crate) async fn let_go_of(&mut self, script: &str, file: &str) -> String {
        let path = self.path.join(file);
        tokio::select! {
            ended = self.sh(script) => panic!("{script}: {ended:?}"),
            line = line_in(&path) => line,
        }
    }

    /// Runs the helper itself, without a shell in between.
    pub(crate) async fn probe(&mut self, arguments: impl IntoIterator<Item = String>) -> Finished {
        let argv = std::iter::once("./probe".to_owned()).chain(arguments).collect();
        let command = Command {
            argv,
            timeout: Duration::from_mins(1),
            at_timeout: AtTimeout::Kill,
            keep_bytes: 64 << 10,
            store_bytes: 0,
            watch: None,
        };
        self.sandbox.exec(command).await.unwrap()
    }

    pub(crate) async fn processes(&mut self) -> u32 {
        self.sandbox.usage().await.unwrap().processes.unwrap()
    }

    /// Closes the sandbox and deletes the directory: both must always be possible.
    pub(crate) async fn end(self) {
        self.sandbox.close().await.unwrap();
        self.workdir.delete().unwrap();
        assert!(!self.path.exists());
    }
}

pub(crate) fn sh(script: &str, timeout: Duration) -> Command {
    Command {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        timeout,
        at_timeout: AtTimeout::Kill,
        keep_bytes: 64 << 10,
        store_bytes: 0,
        watch: None,
    }
}

/// Waits for a file with a whole line in it.
pub(crate) async fn line_in(path: &Path) -> String {
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.ends_with('\n') {
            return text;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn out(finished: &Finished) -> String {
    String::from_utf8_lossy(&finished.stdout.head).into_owned()
}

/// A folder on the disk that a run's user can pass through.
pub(crate) fn folder() -> tempfile::TempDir {
    folder_in(ON_DISK)
}

fn folder_in(place: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir_in(place).unwrap();
    std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    root
}

/// Processes on this host with `marker` in their command line.
pub(crate) fn marked(marker: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let line = std::fs::read(Path::new("/proc").join(format!("{pid}/cmdline"))).unwrap_or_default();
            line.windows(marker.len())
                .any(|window| window == marker.as_bytes())
        })
        .collect()
}

/// Waits until exactly one process holds `marker`: a shell that is about to execute it holds it, too.
pub(crate) fn wait_for_one(marker: &str) -> i32 {
    let began = Instant::now();
    loop {
        match marked(marker).as_slice() {
            [pid] => return *pid,
            others => assert!(began.elapsed() < SOON, "{marker}: {others:?}"),
        }
    }
}

/// Waits until a process holds `marker`: one that is executing a program holds nothing for a moment.
pub(crate) fn wait_until_there(marker: &str) {
    let began = Instant::now();
    while marked(marker).is_empty() {
        assert!(began.elapsed() < SOON, "{marker}: no process");
    }
}

/// Waits until no process holds `marker`; returns the number left after `limit`.
pub(crate) fn wait_until_gone(marker: &str, limit: Duration) -> usize {
    let began = Instant::now();
    loop {
        let left = marked(marker).len();
        if left == 0 || began.elapsed() > limit {
            return left;
        }
        std::thread::yield_now();
    }
}
