//! The engine's side of a sandbox: requests a launcher, sends it commands, and keeps their output.
//!
//! All communication with the launcher uses one socket. Closing that socket kills the sandbox, and the end of the launcher's
//! outer process means that everything in it is dead. A lost sandbox is reopened for the next command.

use std::{
    fs::File,
    io,
    net::TcpListener,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::Arc,
};

use futures_util::future::BoxFuture;
use rustix::system::sysinfo;
use tokio::{
    io::Interest,
    time::{Instant, timeout},
};

use crate::{
    cgroup::{Hierarchy, RunGroup},
    egress::{self, WayOut},
    flight::{Ended, Flight, Job, Landed},
    fork_server::ForkServer,
    hosts,
    live::{Live, PATIENCE},
    piped,
    socket::{Socket, is_gone},
    sys,
    types::{
        AtTimeout, Command, Egress, Error, ExitKind, Finished, Level, Limits, Piped, Sandbox, Spec, Usage,
    },
    uids::RunUid,
    wire::{Broken, Check, MemoryKeeper, Open, Reply, Request, Status},
    workdir::{Workdir, measure},
};

/// Number of attempts to get a launcher.
const ATTEMPTS: usize = 2;

/// State that all sandboxes of a backend share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) launcher: Arc<ForkServer>,
    pub(crate) level: Level,
    pub(crate) groups: Option<Arc<Hierarchy>>,
    /// Paths of the host that commands may read in addition to the system folders.
    pub(crate) visible: Arc<[String]>,
}

/// The open sandbox of one run.
pub(crate) struct Session {
    host: Arc<Host>,
    workdir: OwnedFd,
    scratch: Option<OwnedFd>,
    // Held so that no other run gets the user id.
    _owner: Option<Arc<RunUid>>,
    open: Open,
    live: Option<Live>,
    last_id: u64,
}

/// A descriptor that did not arrive. The kernel silently drops those for which the process has no room.
fn unsent(words: &str) -> Error {
    match File::open("/dev/null") {
        Err(error) => Error::of_setup(&error, format!("{words}: {}", hosts::words(&error))),
        Ok(_there_is_room) => Error::Setup(words.to_owned()),
    }
}

/// Result of asking for a launcher.
enum Attempt {
    Open(Live),
    /// The launcher did not respond, for this reason: for example, the fork server was killed or hangs. Nothing of the run was
    /// executed: a launcher that starts later finds its socket closed and ends.
    Silent(&'static str),
}

impl Session {
    pub(crate) async fn open(host: Arc<Host>, workdir: &Workdir, spec: Spec) -> Result<Self, Error> {
        let setup = |error: io::Error| Error::of_setup(&error, error.to_string());
        if spec.egress == Egress::Proxy && host.level != Level::Namespaces {
            return Err(hosts::no_egress(host.level));
        }
        let owner = workdir.owner();
        let paths = workdir.command_paths(host.level);
        let scratch = if host.level == Level::Namespaces {
            None
        } else {
            Some(workdir.scratch().map_err(setup)?)
        };
        let open = Open {
            level: host.level,
            uid: owner.as_ref().map(|owner| owner.uid()),
            limits: spec.limits,
            memory: if host.groups.is_some() {
                MemoryKeeper::Kernel
            } else {
                MemoryKeeper::Watch
            },
            weighed: host.groups.as_ref().is_some_and(|groups| groups.weighs()),
            env: environment(
                [&paths.work, &paths.temporary],
                &spec.limits,
                egress::environment(spec.egress),
                spec.env,
            ),
            visible: if host.level == Level::Namespaces {
                Vec::new()
            } else {
                host.visible.to_vec()
            },
            scratch: scratch.is_some(),
            egress: spec.egress,
        };
        let workdir = workdir.fd().try_clone_to_owned().map_err(setup)?;
        let mut session = Self {
            host,
            workdir,
            scratch,
            _owner: owner,
            open,
            live: None,
            last_id: 0,
        };
        session.live = Some(session.launch().await?);
        Ok(session)
    }

    async fn launch(&self) -> Result<Live, Error> {
        let mut why = String::new();
        for _ in 0..ATTEMPTS {
            match self.attempt().await? {
                Attempt::Open(live) => return Ok(live),
                Attempt::Silent(reason) => reason.clone_into(&mut why),
            }
        }
        Err(Error::Setup(why))
    }

    async fn attempt(&self) -> Result<Attempt, Error> {
        let setup = |error: io::Error| Error::of_setup(&error, error.to_string());
        // Reverse order of teardown, in case this fails half-way.
        let group = match &self.host.groups {
            Some(groups) => Some(groups.create(&self.open.limits).map_err(setup)?),
            None => None,
        };
        let doors = group
            .as_ref()
            .map_or(Ok(Vec::new()), RunGroup::doors)
            .map_err(setup)?;
        let (socket, theirs) = Socket::pair().map_err(setup)?;
        let asked = self.host.launcher.ask(theirs).await?;
        let fds: Vec<BorrowedFd<'_>> = std::iter::once(self.workdir.as_fd())
            .chain(self.scratch.as_ref().map(AsFd::as_fd))
            .chain(doors.iter().map(AsFd::as_fd))
            .collect();
        let request = Request::Open(Box::new(self.open.clone()));
        let reply = timeout(PATIENCE, async {
            match socket.send(&request, &fds).await {
                Err(error) if !is_gone(&error) => Err(error),
                // A launcher that is gone may have sent the reason.
                Ok(()) | Err(_) => socket.receive_all().await,
            }
        });
        let descriptors = match reply.await {
            Ok(Ok(Some((Reply::Ready, descriptors)))) => descriptors,
            Ok(Ok(Some((Reply::Failed { step, errno }, _)))) => return Err(hosts::refusal(&step, errno)),
            Ok(Ok(Some(_))) => return Err(Error::Setup("the launcher said something else".to_owned())),
            Ok(Ok(None)) => {
                // A killed fork server accepts requests until it is gone: the next attempt goes to a new one.
                self.host.launcher.replace(&asked);
                return Ok(Attempt::Silent("the launcher ended without a word"));
            }
            Ok(Err(error)) => return Err(setup(error)),
            Err(_late) => {
                // The fork server may hang: neither this nor a later sandbox shall wait for it again.
                self.host.launcher.replace(&asked);
                return Ok(Attempt::Silent("the launcher does not answer"));
            }
        };
        let mut descriptors = descriptors.into_iter();
        let (Some(outer), way_out) = (descriptors.next(), descriptors.next()) else {
            return Err(unsent("the launcher did not say who it is"));
        };
        if way_out.is_none() && self.open.egress == Egress::Proxy {
            return Err(unsent("the launcher sent no socket"));
        }
        Ok(Attempt::Open(Live {
            level: self.open.level,
            socket,
            outer: sys::async_descriptor(outer, Interest::READABLE).map_err(setup)?,
            way_out: way_out.map(WayOut::new).transpose().map_err(setup)?,
            group,
            memory_kills: 0,
        }))
    }

    /// Reopens the sandbox, if it was lost.
    async fn stand(&mut self) -> Result<(), Error> {
        if self.live.is_none() {
            self.live = Some(self.launch().await?);
        }
        Ok(())
    }

    /// Runs a job until it ends or is released; a lost sandbox is reopened first.
    async fn run(&mut self, job: Job) -> Result<Finished, Error> {
        self.stand().await?;
        self.last_id += 1;
        let began = Instant::now();
        let Landed {
            ended,
            stdout,
            stderr,
            stored,
            released,
        } = Flight::new(&mut self.live, self.last_id)
            .run(job, &self.workdir)
            .await?;
        let kills = self.live.as_mut().is_some_and(Live::memory_was_killed);
        let exit = match ended {
            Ended::TimedOut | Ended::Stuck => ExitKind::TimedOut,
            Ended::Released => ExitKind::Running,
            Ended::NotConfined { step, errno } => return Err(hosts::refusal(&step, errno)),
            Ended::NotExecutable(reason) => return Err(Error::NotExecutable(reason)),
            Ended::Lost(reason) => {
                // The last process must be reaped before the group is read and removed.
                if let Some(live) = self.live.take() {
                    live.end().await?;
                }
                if !kills {
                    return Err(Error::Lost(reason));
                }
                ExitKind::Memory
            }
            Ended::Exited {
                broken: Some(Broken::Memory),
                ..
            } => ExitKind::Memory,
            Ended::Exited {
                broken: Some(Broken::Disk),
                ..
            } => ExitKind::Disk,
            Ended::Exited { .. } if kills => ExitKind::Memory,
            Ended::Exited {
                status: Status::Code(code),
                ..
            } => ExitKind::Code(code),
            Ended::Exited {
                status: Status::Signal(signal),
                ..
            } => ExitKind::Signal(signal),
        };
        Ok(Finished {
            exit,
            stdout,
            stderr,
            stored,
            duration: began.elapsed(),
            released,
        })
    }

    /// Checks the confinement from inside.
    pub(crate) async fn check(&mut self, check: Check) -> Result<Finished, Error> {
        let request = move |id| Request::Check { id, check };
        self.run(Job {
            request: Box::new(request),
            what: "check".to_owned(),
            timeout: PATIENCE,
            at_timeout: AtTimeout::Kill,
            keep: 16 << 10,
            store: 0,
            watch: None,
        })
        .await
    }

    async fn measure(&mut self) -> Result<Usage, Error> {
        let lost = |error: io::Error| Error::Lost(error.to_string());
        let workdir = self.workdir.try_clone().map_err(lost)?;
        let total = tokio::task::spawn_blocking(move || measure(workdir.as_fd(), u64::MAX))
            .await
            .map_err(|error| Error::Lost(error.to_string()))?
            .map_err(lost)?;
        let mut usage = Usage {
            disk_bytes: total.bytes,
            ..Usage::default()
        };
        let Some(live) = &mut self.live else {
            return Ok(usage);
        };
        live.socket.send(&Request::Usage, &[]).await.map_err(lost)?;
        let reply = timeout(PATIENCE, async {
            loop {
                // Messages about an abandoned command come first.
                match live.socket.receive().await.map_err(lost)? {
                    Some(Reply::Usage { memory, processes }) => return Ok((memory, processes)),
                    Some(_) => {}
                    None => return Err(Error::Lost("it has ended".to_owned())),
                }
            }
        })
        .await
        .map_err(|_late| Error::Lost("it does not answer".to_owned()))?;
        let (memory, processes) = reply?;
        usage.memory_bytes = Some(live.group.as_ref().and_then(RunGroup::memory).unwrap_or(memory));
        usage.processes = Some(processes);
        Ok(usage)
    }
}

impl Sandbox for Session {
    fn exec(&mut self, command: Command) -> BoxFuture<'_, Result<Finished, Error>> {
        let what = command.argv.first().cloned().unwrap_or_default();
        let argv = command.argv;
        Box::pin(self.run(Job {
            request: Box::new(move |id| Request::Exec { id, argv }),
            what,
            timeout: command.timeout,
            at_timeout: command.at_timeout,
            keep: command.keep_bytes,
            store: command.store_bytes,
            watch: command.watch,
        }))
    }

    fn start(&mut self, argv: Vec<String>) -> BoxFuture<'_, Result<Piped, Error>> {
        Box::pin(async move {
            self.stand().await?;
            let started = match &self.live {
                Some(live) => piped::start(live, argv).await,
                None => Err(Error::Lost("it is not open".to_owned())),
            };
            if matches!(started, Err(Error::Lost(_)))
                && let Some(live) = self.live.take()
            {
                live.end().await?;
            }
            started
        })
    }

    fn egress(&mut self) -> BoxFuture<'_, Result<Option<TcpListener>, Error>> {
        Box::pin(async {
            self.stand().await?;
            let way_out = self.live.as_mut().and_then(|live| live.way_out.as_mut());
            Ok(way_out.and_then(WayOut::take))
        })
    }

    fn usage(&mut self) -> BoxFuture<'_, Result<Usage, Error>> {
        Box::pin(self.measure())
    }

    fn close(mut self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            match self.live.take() {
                Some(live) => live.end().await,
                None => Ok(()),
            }
        })
    }
}

/// Variables for unattended programs: plain text, no pager, no progress bar, no prompts, and an author for commits.
const UNATTENDED: [(&str, &str); 14] = [
    ("LANG", "C.UTF-8"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_AUTHOR_NAME", "Sortie agent"),
    ("GIT_AUTHOR_EMAIL", "agent@sortie.example"),
    ("GIT_COMMITTER_NAME", "Sortie agent"),
    ("GIT_COMMITTER_EMAIL", "agent@sortie.example"),
    ("PIP_PROGRESS_BAR", "off"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("TQDM_DISABLE", "1"),
    ("DEBIAN_FRONTEND", "noninteractive"),
];

/// Fraction of the memory limit that Node and Go may fill before they collect garbage. The rest is for non-heap memory and for
/// other processes.
const HEAP: (u64, u64) = (3, 4);

/// Variables for runtimes that do not ask the kernel for the machine's memory, or ask where the run's limit is not visible. A
/// command line option overrides them.
fn memory_variables(limits: &Limits) -> [(String, String); 2] {
    let (part, of) = HEAP;
    let host = sysinfo();
    let total = host.totalram.saturating_mul(u64::from(host.mem_unit));
    let heap = (limits.memory_bytes.min(total) / of * part) >> 20;
    [
        ("NODE_OPTIONS".to_owned(), format!("--max-old-space-size={heap}")),
        ("GOMEMLIMIT".to_owned(), format!("{heap}MiB")),
    ]
}

/// The environment of every command: built from nothing.
fn environment(
    [home, tmp]: [&Path; 2],
    limits: &Limits,
    proxy: Vec<(String, String)>,
    extra: Vec<(String, String)>,
) -> Vec<(String, String)> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut env = vec![
        (
            "PATH".to_owned(),
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        ),
        ("HOME".to_owned(), text(home)),
        ("TMPDIR".to_owned(), text(tmp)),
    ];
    let fixed = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    env.extend(UNATTENDED.iter().map(fixed));
    env.extend(memory_variables(limits));
    env.extend(proxy);
    env.retain(|(name, _)| !extra.iter().any(|(other, _)| other == name));
    env.extend(extra);
    env
}
