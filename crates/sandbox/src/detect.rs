//! Finds by trial how strongly this host can confine commands.
//!
//! Nothing is concluded from versions or settings: a sandbox is opened at each level from the strongest down, a check of ours
//! runs inside it, and only verified guarantees count.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::BoxFuture;

use crate::{
    cgroup::Hierarchy,
    fork_server::ForkServer,
    hosts, landlock, passage,
    session::{Host, Session},
    sys,
    types::{
        Backend, Capabilities, Egress, Enforcement, Error, ExitKind, Level, Limits, Sandbox, Spec, Tenancy,
    },
    visible,
    wire::{Check, Outside},
    workdir::Workdir,
};

/// Requirements on the host.
#[derive(Clone, Debug)]
pub struct Options {
    /// The weakest acceptable level.
    pub minimum: Level,
    /// The strongest level to try.
    pub strongest: Level,
    /// The binary that calls [`launcher_main`](crate::launcher_main) first; normally this one.
    pub launcher: PathBuf,
    /// The folder for working directories; the probe creates a temporary one there.
    pub root: PathBuf,
    /// Folders above `root` that other users may be given search permission on, like `root` itself. This is done if runs have
    /// separate users and see the host's file system.
    pub passable: Vec<PathBuf>,
    /// Additional files and folders that commands may read: see [`check_readable`](crate::check_readable).
    pub readable: Vec<PathBuf>,
}

impl Options {
    /// Requires namespaces, with this binary as the launcher and working directories in `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            minimum: Level::Namespaces,
            strongest: Level::Namespaces,
            launcher: PathBuf::from("/proc/self/exe"),
            root: root.into(),
            passable: Vec::new(),
            readable: Vec::new(),
        }
    }
}

/// Opens sandboxes on this host at the level that [`detect`] found.
struct HostBackend {
    host: Arc<Host>,
    capabilities: Capabilities,
}

impl Backend for HostBackend {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn open<'a>(
        &'a self,
        workdir: &'a Workdir,
        spec: Spec,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
        Box::pin(async move {
            let session = Session::open(Arc::clone(&self.host), workdir, spec).await?;
            Ok(Box::new(session) as Box<dyn Sandbox>)
        })
    }
}

/// Returns the backend at the strongest level that this host supports, not below `options.minimum`.
///
/// # Errors
/// [`Error::Unavailable`] with the reason why the strongest level is unavailable, and a remedy; other errors if not even a probe
/// could be created.
pub async fn detect(options: &Options) -> Result<Arc<dyn Backend>, Error> {
    visible::all_readable(&options.readable)?;
    let mut refused = Vec::new();
    for level in [Level::Namespaces, Level::Landlock, Level::None] {
        if level > options.strongest || level < options.minimum {
            continue;
        }
        match attempt(options, level).await {
            Ok(mut backend) => {
                let reasons = refused.iter().map(hosts::reason);
                backend.capabilities.missing.splice(0..0, reasons);
                return Ok(Arc::new(backend));
            }
            Err(error) => refused.push(error),
        }
    }
    Err(hosts::all_refused(refused))
}

/// Probes this host at exactly one level.
///
/// # Errors
/// See [`detect`], for this level alone.
pub async fn probe(options: &Options, level: Level) -> Result<Capabilities, Error> {
    Ok(attempt(options, level).await?.capabilities)
}

async fn attempt(options: &Options, level: Level) -> Result<HostBackend, Error> {
    let mut missing = Vec::new();
    let groups = Hierarchy::find()
        .map_err(|reason| missing.push(memory_is_watched(&reason)))
        .ok();
    if groups.as_ref().is_some_and(|groups| !groups.weighs()) {
        missing.push(
            "runs are put below the engine by nice values alone: the cpu controller is not delegated to the engine's \
             control group"
                .to_owned(),
        );
    }
    let visible = visible::find(&options.readable);
    missing.extend(visible.withheld_words());
    let version = sys::landlock_version();
    match (level, version) {
        (Level::Namespaces, None) => {
            missing.push("this kernel has no Landlock: the second layer is missing".to_owned());
        }
        (Level::Landlock, Some(version)) if version < landlock::SCOPED => missing.push(format!(
            "this kernel's Landlock (version {version}) does not keep signals inside the sandbox"
        )),
        _ => {}
    }
    let visible: Arc<[String]> = visible.paths.into();
    let mut host = Host {
        launcher: Arc::new(ForkServer::new(options.launcher.clone(), level, &visible)),
        level,
        groups,
        visible,
    };
    let stage = Stage::set(&options.root).map_err(|error| {
        Error::Setup(format!(
            "no probe can be made in {}: {}",
            options.root.display(),
            hosts::words(&error)
        ))
    })?;
    if level != Level::None && stage.workdir.owner().is_none() && is_host_root() {
        return Err(Error::Unavailable {
            reason: "the engine is root but may not run commands as another user".to_owned(),
            hint: "Run it as an ordinary user, or give it CAP_SETUID, CAP_SETGID, CAP_CHOWN, CAP_FOWNER, \
                   CAP_DAC_OVERRIDE and CAP_KILL"
                .to_owned(),
        });
    }
    let own_users = stage.workdir.owner().is_some();
    if level != Level::Namespaces && stage.workdir.owner().is_some() {
        missing.extend(let_pass(options)?);
    }
    let probed = try_level(&mut host, &stage, version, &mut missing).await;
    stage
        .clear()
        .map_err(|error| Error::Setup(format!("the probe cannot be removed: {error}")))?;
    probed?;
    let memory = if host.groups.is_some() {
        Enforcement::Hard
    } else {
        Enforcement::Soft
    };
    let shared = hosts::shared(level, memory, own_users);
    let tenancy = if shared.is_some() {
        Tenancy::Single
    } else {
        Tenancy::Multi
    };
    missing.extend(shared);
    let capabilities = Capabilities {
        level,
        memory,
        disk: Enforcement::Soft,
        tenancy,
        egress: level == Level::Namespaces,
        missing,
    };
    Ok(HostBackend {
        host: Arc::new(host),
        capabilities,
    })
}

/// Lets the users of runs traverse the folders to their working directories. Returns a sentence about a folder that still
/// prevents it.
fn let_pass(options: &Options) -> Result<Option<String>, Error> {
    passage::open(&options.root, &options.passable).map_err(|error| {
        Error::Setup(format!(
            "the way to {} cannot be opened to the users of runs: {}",
            options.root.display(),
            hosts::words(&error)
        ))
    })?;
    Ok(passage::closed(&options.root).map(|folder| {
        format!(
            "programs that use TMPDIR or other absolute paths fail: runs have users of their own, which cannot pass \
             through {} (chmod o+x)",
            folder.display()
        )
    }))
}

fn memory_is_watched(reason: &str) -> String {
    format!("the memory limit is kept by watching: {reason}")
}

async fn try_level(
    host: &mut Host,
    stage: &Stage,
    landlock: Option<u32>,
    missing: &mut Vec<String>,
) -> Result<(), Error> {
    if host.groups.is_some() && !memory_limit_holds(host, stage).await? {
        missing.push(memory_is_watched(
            "a process grew beyond its control group's limit",
        ));
        host.groups = None;
    }
    let egress = if host.level == Level::Namespaces {
        // Escape attempts run with egress in place.
        Egress::Proxy
    } else {
        missing.push(hosts::reason(&hosts::no_egress(host.level)));
        Egress::None
    };
    let spec = Spec {
        egress,
        ..Spec::default()
    };
    let mut session = Session::open(Arc::new(host.shallow()), &stage.workdir, spec).await?;
    if host.level == Level::None {
        // Nothing to try: without confinement, the attempts would succeed.
        missing.push("commands are not confined at all".to_owned());
        return Box::new(session).close().await;
    }
    let checked = session.check(Check::Escapes(stage.outside())).await;
    Box::new(session).close().await?;
    let checked = checked?;
    let output = String::from_utf8_lossy(&checked.stdout.head).into_owned();
    let known_gap = landlock.is_some_and(|version| version < landlock::SCOPED);
    let open: Vec<&str> = output
        .lines()
        .filter(|finding| !(known_gap && finding.ends_with("can be signalled")))
        .collect();
    if checked.exit == ExitKind::Code(0) && open.is_empty() {
        return Ok(());
    }
    let findings = if open.is_empty() {
        format!("the check ended by {:?}", checked.exit)
    } else {
        open.join(", ")
    };
    Err(Error::Unavailable {
        reason: format!(
            "a sandbox opened, but did not hold at level {}: {findings}",
            host.level.as_str()
        ),
        hint: hosts::HINT.to_owned(),
    })
}

/// Whether a memory cgroup really stops a process at its limit.
async fn memory_limit_holds(host: &Host, stage: &Stage) -> Result<bool, Error> {
    // Every engine start fills this memory, so it is small. A sandbox with a command takes little more than 1 MiB, and more on
    // hosts with large pages.
    let memory_bytes = 16 << 20;
    let spec = Spec {
        limits: Limits {
            memory_bytes,
            ..Limits::default()
        },
        ..Spec::default()
    };
    let mut session = Session::open(Arc::new(host.shallow()), &stage.workdir, spec).await?;
    let checked = session.check(Check::Memory(2 * memory_bytes)).await;
    Box::new(session).close().await?;
    Ok(checked?.exit == ExitKind::Memory)
}

impl Host {
    fn shallow(&self) -> Self {
        Self {
            launcher: Arc::clone(&self.launcher),
            level: self.level,
            groups: self.groups.clone(),
            visible: Arc::clone(&self.visible),
        }
    }
}

/// Stage of a check: a working directory, a secret next to it, a listener on the host.
struct Stage {
    workdir: Workdir,
    secret: PathBuf,
    listener: TcpListener,
}

impl Stage {
    fn set(root: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            ".probe-{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        let workdir = Workdir::create(root, &name)?;
        let secret = root.join(format!("{name}.secret"));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&secret)?;
        file.write_all(b"secret")?;
        Ok(Self {
            workdir,
            secret,
            listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
        })
    }

    fn outside(&self) -> Outside {
        Outside {
            secret: self.secret.to_string_lossy().into_owned(),
            port: self.listener.local_addr().map_or(0, |address| address.port()),
            pid: std::process::id(),
        }
    }

    fn clear(self) -> io::Result<()> {
        fs::remove_file(&self.secret)?;
        self.workdir.delete()
    }
}

/// Whether we are root of the machine, and not just root of a user namespace.
fn is_host_root() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let mut first = map.split_whitespace();
    rustix::process::geteuid().is_root() && (first.next(), first.next()) == (Some("0"), Some("0"))
}
