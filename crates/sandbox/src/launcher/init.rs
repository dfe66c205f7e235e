//! The first process of a sandbox: confines itself, then runs commands, one at a time, next to piped processes, and reaps
//! everything.

use std::{
    collections::HashSet,
    ffi::CString,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags, open as open_file},
    io::{Errno, read},
    process::{
        DumpableBehavior, Pid, Signal, fchdir, getpid, kill_process, set_child_subreaper,
        set_dumpable_behavior, set_parent_process_death_signal,
    },
    thread::set_no_new_privs,
};

use super::{
    Failure, Step,
    command::{self, Task, Ties},
    discard::Discard,
    ending::{self, Dying},
    identity, memory,
    piped::{self, Origin, PipedProcesses},
    procs::{self, Process, ProcessSource},
    questions::Questions,
    rootfs,
    state::{Current, Inherited, Init},
    watch::Watch,
};
use crate::{
    egress, landlock,
    seccomp::{self, Asks},
    sys,
    types::{Egress, Level},
    wire::{self, Broken, MemoryKeeper, Open, Reply, Request, Status},
};

/// Rounds of killing a command's new processes before everything is killed.
const KILL_ROUNDS: usize = 8;
/// Time that a command's processes may take to die before everything is killed: longer than a busy host delays them, and half of
/// the engine's timeout.
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// Timeout of the end of everything without a pid namespace.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Next step of the loop.
enum Next {
    Go,
    Stop,
}

/// Sets the sandbox up and serves it until the engine hangs up.
///
/// `work` is the clone of the working directory's mount at level `namespaces`.
pub(super) fn run(
    socket: &OwnedFd,
    open: &Open,
    inherited: Inherited,
    work: Option<OwnedFd>,
) -> Result<(), Failure> {
    let children = sys::child_signals().step("signalfd")?;
    let mut way_out = None;
    match open.level {
        Level::Namespaces => {
            die_with_parent()?;
            let _only_a_name = rustix::system::sethostname(b"sandbox");
            sys::raise_loopback().step("raise lo")?;
            if open.egress == Egress::Proxy {
                way_out = Some(egress::bind().step("bind the way out")?);
            }
            let work = work.ok_or(Errno::PROTO).step("open the working directory")?;
            rootfs::complete(&open.limits, &work)?;
        }
        Level::Landlock | Level::None => {
            identity::become_run_user(open.uid)?;
            die_with_parent()?;
            set_child_subreaper(Some(getpid())).step("subreaper")?;
            fchdir(&inherited.workdir).step("enter the working directory")?;
        }
    }
    // Nothing inside may read or trace this process.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).step("dumpable")?;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let null = open_file("/dev/null", flags, Mode::empty()).step("open /dev/null")?;
    let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let watched_scratch = inherited
        .scratch
        .as_ref()
        .map(OwnedFd::try_clone)
        .transpose()
        .step("watch")?;
    let mut init = Init {
        socket,
        open,
        work: open_file(".", folder, Mode::empty()).step("open the working directory")?,
        scratch: inherited.scratch,
        null,
        env: environment(&open.env)?,
        children,
        current: None,
        piped: PipedProcesses::default(),
        anything_alive: false,
        discard: Discard::default(),
        questions: None,
        watch: Watch::new(open.level, open.limits, open.memory, watched_scratch).step("watch")?,
    };
    // It belongs to the host's mounts, which this process has left.
    drop(inherited.workdir);
    init.confine()?;
    let descriptors: Vec<_> = std::iter::once(inherited.outer.as_fd())
        .chain(way_out.iter().map(AsFd::as_fd))
        .collect();
    wire::send(socket.as_fd(), &Reply::Ready, &descriptors).step("ready")?;
    // From here on, only the engine holds them.
    drop((inherited.outer, way_out));
    init.serve()
}

/// Ends this process with its parent. Set after the change of user, which clears it.
fn die_with_parent() -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL)).step("death signal")
}

fn environment(env: &[(String, String)]) -> Result<Vec<CString>, Failure> {
    env.iter()
        .map(|(name, value)| CString::new(format!("{name}={value}")).map_err(|_| Errno::INVAL))
        .collect::<Result<_, _>>()
        .step("environment")
}

impl Init<'_> {
    /// Drops rights for itself and, by inheritance, for every command.
    fn confine(&mut self) -> Result<(), Failure> {
        match self.open.level {
            Level::Namespaces => {
                identity::drop_all_rights()?;
                // A kernel without Landlock leaves one layer less; the probe says so.
                let _kernel_took_part = landlock::confine_inside_root()
                    .map_err(std::io::Error::other)
                    .step("landlock")?;
                self.answer_questions()?;
                let filter = seccomp::filter(self.open.level, self.open.memory);
                sys::install_filter(&filter).step("seccomp")
            }
            // The rest is done in each command: this process must be able to kill processes outside its rules.
            Level::Landlock => {
                identity::clear_capabilities()?;
                set_no_new_privs(true).step("no_new_privs")?;
                self.answer_questions()
            }
            Level::None => Ok(()),
        }
    }

    /// Makes processes ask for the amount of memory and, unless the run is counted separately, before calls that use memory which
    /// no control group limits or objects that are counted for the engine's user.
    fn answer_questions(&mut self) -> Result<(), Failure> {
        let counted_apart = self.open.uid.is_some() && self.open.memory == MemoryKeeper::Kernel;
        let asks = if counted_apart && self.open.weighed {
            Asks::Memory
        } else {
            Asks::All
        };
        self.questions = match Questions::ask(asks, self.open.limits.memory_bytes) {
            // If a container engine has installed an asking filter, ours cannot be added. Such a node is single-tenant anyway.
            Err(Errno::BUSY) => None,
            asked => Some(asked.step("limit watched descriptors and sessions")?),
        };
        Ok(())
    }

    fn serve(&mut self) -> Result<(), Failure> {
        loop {
            self.wait_for_something()?;
            self.reap();
            self.finish();
            self.serve_piped();
            self.discard.drain();
            if let Some(questions) = &mut self.questions {
                questions.serve();
            }
            if self.anything_alive
                && let Some(broken) = self.watch.look()
            {
                self.stop_for(broken);
            }
            if let Next::Stop = self.handle_message()? {
                return Ok(());
            }
        }
    }

    fn wait_for_something(&self) -> Result<(), Failure> {
        let mut fds = vec![
            PollFd::new(self.socket, PollFlags::IN),
            PollFd::new(&self.children, PollFlags::IN),
        ];
        fds.extend(
            self.discard
                .fds()
                .chain(self.piped.fds())
                .chain(self.questions.iter().map(Questions::fd))
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
        );
        let ended = self
            .current
            .as_ref()
            .is_some_and(|current| current.status.is_some());
        let timeout = if ended || self.piped.any_ended() {
            // Its end was noticed while something else was done.
            Some(timespec(Duration::ZERO))
        } else {
            let look = self.anything_alive.then(|| self.watch.due_in());
            let count = self.questions.as_ref().and_then(Questions::due_in);
            look.into_iter().chain(count).min().map(timespec)
        };
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno).step("poll"),
        }
    }

    /// Handles one message, if there is one.
    fn handle_message(&mut self) -> Result<Next, Failure> {
        let mut ready = [PollFd::new(self.socket, PollFlags::IN)];
        if poll(&mut ready, Some(&timespec(Duration::ZERO))).step("poll")? == 0 {
            return Ok(Next::Go);
        }
        let Some((request, fds)) = wire::receive::<Request>(self.socket.as_fd()).step("receive")? else {
            return Ok(Next::Stop);
        };
        match request {
            Request::Exec { id, argv } => self.start(id, Task::Program(argv), &fds)?,
            Request::Start { argv } => self.start_piped(argv, fds)?,
            Request::Check { id, check } => self.start(id, Task::Check(check), &fds)?,
            Request::Kill { id } => self.end_command(id),
            Request::Release { id } => self.release(id, fds)?,
            Request::Discard => self.discard.add(fds),
            Request::Usage => self.send_usage(),
            Request::Open(_) => return Err(Errno::PROTO).step("second opening"),
        }
        Ok(Next::Go)
    }

    fn start(&mut self, id: u64, task: Task, streams: &[OwnedFd]) -> Result<(), Failure> {
        let [stdout, stderr] = streams else {
            return Err(Errno::PROTO).step("streams");
        };
        let file_bytes = self.watch.file_bytes();
        match sys::fork() {
            Ok(None) => {
                let ties = Ties {
                    engine: self.socket.as_fd(),
                    id,
                    streams: [self.null.as_fd(), stdout.as_fd(), stderr.as_fd()],
                    file_bytes,
                };
                command::run(self, task, &ties)
            }
            Ok(Some(pid)) => {
                self.piped.forget_ended(pid);
                self.expect_session(pid);
                self.current = Some(Current {
                    id,
                    pid,
                    status: None,
                    broken: None,
                    peak_bytes: 0,
                });
                self.anything_alive = true;
                Ok(())
            }
            // Background processes may have used up all processes or memory.
            Err(errno) => {
                self.send(&Reply::NotExecutable {
                    id,
                    errno: errno.raw_os_error(),
                });
                self.send(&Reply::Exited {
                    id,
                    status: Status::Code(127),
                    broken: None,
                });
                Ok(())
            }
        }
    }

    fn start_piped(&mut self, argv: Vec<String>, fds: Vec<OwnedFd>) -> Result<(), Failure> {
        let Ok([stdin, stdout, engine]) = <[OwnedFd; 3]>::try_from(fds) else {
            return Err(Errno::PROTO).step("streams");
        };
        let started = piped::stderr_pipe()
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
            .and_then(|pipe| Ok((sys::fork()?, pipe)));
        match started {
            Ok((None, (_reader, stderr))) => {
                let ties = Ties {
                    engine: engine.as_fd(),
                    id: 0,
                    streams: [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()],
                    file_bytes: self.open.limits.file_bytes,
                };
                command::run(self, Task::Program(argv), &ties)
            }
            Ok((Some(pid), (reader, _writer))) => {
                self.piped.add(pid, engine, reader);
                self.expect_session(pid);
                self.anything_alive = true;
            }
            Err(errno) => piped::refuse(&engine, errno),
        }
        Ok(())
    }

    fn expect_session(&mut self, command: Pid) {
        if let Some(questions) = &mut self.questions {
            questions.expect_session(command);
        }
    }

    /// Releases a command, so that the next one can start. An ended command was already reported.
    fn release(&mut self, id: u64, fds: Vec<OwnedFd>) -> Result<(), Failure> {
        let Ok([engine]) = <[OwnedFd; 1]>::try_from(fds) else {
            return Err(Errno::PROTO).step("release");
        };
        if let Some(current) = self.current.take_if(|current| current.id == id) {
            self.piped.add_released(current.pid, engine, current.peak_bytes);
            self.send(&Reply::Released { id });
        }
        Ok(())
    }

    /// Reads from piped processes, kills those that the engine has let go of, and reports ended ones to it.
    fn serve_piped(&mut self) {
        self.piped.listen();
        for leader in self.piped.let_go() {
            self.end_processes(|source| procs::of_piped(leader, source));
        }
        self.piped.forget_let_go();
        for mut ended in self.piped.take_ended() {
            ended.drain_stderr();
            match ended.origin {
                // Processes that it left running would hold its streams open.
                Origin::Started => self.end_processes(|source| procs::of_piped(ended.pid, source)),
                Origin::Released => {}
            }
            if ended.broken.is_none() && self.watch.was_passed_by(ended.peak_bytes) {
                // It started and ended between two checks.
                ended.broken = Some(Broken::Memory);
                self.stop_for(Broken::Memory);
            }
            let left = ended.has_left();
            ended.report(left);
            if left {
                self.piped.remember(ended);
            }
        }
    }

    /// Reaps all ended children, and records the status of the command.
    fn reap(&mut self) {
        let mut signals = [0_u8; 1_024];
        while read(&self.children, signals.as_mut_slice()).is_ok() {}
        loop {
            match sys::reap_one() {
                Ok(Some(reaped)) => {
                    let status = reaped.ended.map_or_else(Status::Signal, Status::Code);
                    if self.piped.note(reaped.pid, status, reaped.peak_bytes) {
                        continue;
                    }
                    if let Some(current) = self.current.as_mut() {
                        current.peak_bytes = current.peak_bytes.max(reaped.peak_bytes);
                        if current.pid == reaped.pid {
                            current.status = Some(status);
                        }
                    }
                }
                Ok(None) => {
                    self.anything_alive = true;
                    return;
                }
                Err(Errno::INTR) => {}
                Err(_no_children) => {
                    self.anything_alive = false;
                    return;
                }
            }
        }
    }

    /// Reports the command, if it has ended.
    fn finish(&mut self) {
        let Some(mut current) = self.current.take_if(|current| current.status.is_some()) else {
            return;
        };
        let Some(status) = current.status else { return };
        if current.broken.is_none() {
            current.broken = self.watch.look_at_end(current.peak_bytes);
            if let Some(broken) = current.broken {
                self.piped.note_broken(broken);
                self.end_everything();
                self.watch.start_over(broken);
            }
        }
        self.send(&Reply::Exited {
            id: current.id,
            status,
            broken: current.broken,
        });
    }

    fn stop_for(&mut self, broken: Broken) {
        if let Some(current) = &mut self.current {
            current.broken = Some(broken);
        }
        self.piped.note_broken(broken);
        self.end_everything();
        self.watch.start_over(broken);
        self.finish();
    }

    /// Kills a command with everything it started, but not processes of earlier commands or piped processes.
    fn end_command(&mut self, id: u64) {
        let Some(current) = self.current.as_ref().filter(|current| current.id == id) else {
            return;
        };
        let Some(command) = procs::one(current.pid) else {
            return;
        };
        let piped = self.piped.pids();
        self.end_processes(|source| procs::of_command(&command, &piped, source));
        self.finish();
    }

    /// Kills the processes that `find` finds until it finds none; if they start faster than they are found, kills everything.
    fn end_processes(&mut self, find: impl Fn(ProcessSource) -> io::Result<Vec<Process>>) {
        let began = Instant::now();
        let mut killed = HashSet::new();
        let mut dying = None;
        let mut rounds_with_new = 0;
        let mut empty_looks = 0;
        while rounds_with_new < KILL_ROUNDS && began.elapsed() < KILL_LIMIT {
            let source = if empty_looks == 0 {
                ProcessSource::Children
            } else {
                ProcessSource::All
            };
            let Ok(alive) = find(source) else {
                empty_looks = 0;
                self.pause(Duration::from_millis(2));
                self.reap();
                continue;
            };
            if alive.is_empty() {
                self.reap();
                // A process with a parent that ended during a scan of everything is found by the next one.
                empty_looks += 1;
                if empty_looks > 2 {
                    return;
                }
                continue;
            }
            empty_looks = 0;
            let mut any_new = false;
            for process in &alive {
                procs::signal(process, Signal::KILL);
                any_new |= killed.insert(process.pid);
            }
            rounds_with_new += usize::from(any_new);
            // Only once nothing new is found: forking processes must be killed as fast as they are found.
            if !any_new {
                dying.get_or_insert_with(|| Dying::of(&alive)).raise();
            }
            self.pause(Duration::from_millis(2));
            self.reap();
        }
        self.end_everything();
    }

    /// Waits for a child to end, at most this long.
    fn pause(&self, limit: Duration) {
        let mut fds = [PollFd::new(&self.children, PollFlags::IN)];
        // An interrupted wait is as good as a finished one.
        let _only_a_pause = poll(&mut fds, Some(&timespec(limit)));
    }

    /// Kills everything but this process.
    fn end_everything(&mut self) {
        if self.open.level != Level::Namespaces {
            let living = procs::living_in(ProcessSource::Children).unwrap_or_default();
            for process in &living {
                procs::signal(process, Signal::KILL);
            }
            self.end_children(&mut Dying::of(&living));
            ending::end_all_descendants(END_LIMIT);
            self.reap();
            return;
        }
        // Atomic for the kernel: no process can start in between.
        let _nothing_left = sys::kill_all();
        let mut dying = Dying::all(procs::living);
        while self.anything_alive {
            dying.raise();
            self.pause(Duration::from_millis(10));
            self.reap();
        }
    }

    /// Ends the command itself and the piped processes. Their status must not be lost in the general reaping.
    fn end_children(&mut self, dying: &mut Dying) {
        loop {
            let command = self.current.as_ref().filter(|current| current.status.is_none());
            let mut waiting = self.piped.alive();
            waiting.extend(command.map(|current| current.pid));
            if waiting.is_empty() {
                return;
            }
            for pid in waiting {
                let _already_ended = kill_process(pid, Signal::KILL);
            }
            dying.raise();
            self.pause(Duration::from_millis(10));
            self.reap();
        }
    }

    fn send_usage(&self) {
        // Only the operator reads this figure: it is 0 if the processes cannot be read.
        let ours = procs::all().map_or_else(|_| Vec::new(), |all| procs::descendants(&all, getpid()));
        let processes = u32::try_from(ours.len()).unwrap_or(u32::MAX);
        self.send(&Reply::Usage {
            memory: memory::of_processes(&ours),
            processes,
        });
    }

    /// Sends a reply. If the engine is gone, the next receive reports that.
    fn send(&self, reply: &Reply) {
        let socket: BorrowedFd<'_> = self.socket.as_fd();
        let _engine_may_be_gone = wire::send(socket, reply, &[]);
    }
}

fn timespec(duration: Duration) -> Timespec {
    // Rounded up to a millisecond, so that the wait does not end before the duration.
    let duration = duration + Duration::from_millis(u64::from(!duration.is_zero()));
    Timespec::try_from(duration).unwrap_or(Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    })
}
