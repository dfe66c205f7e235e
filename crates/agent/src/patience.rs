//! Opening sandboxes on a machine that is out of file descriptors: retries until other sandboxes have released theirs.

use sortie_base::descriptors::Patience;
use sortie_sandbox::{Backend, Error, Sandbox, Spec, Workdir};

/// Opens a sandbox, as soon as there are descriptors for it.
///
/// # Errors
/// As [`Backend::open`] does.
pub async fn open_sandbox(
    backend: &dyn Backend,
    workdir: &Workdir,
    spec: Spec,
) -> Result<Box<dyn Sandbox>, Error> {
    let patience = Patience::default();
    loop {
        match backend.open(workdir, spec.clone()).await {
            Err(error) if error.is_out_of_descriptors() && patience.wait().await => {}
            opened => return opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{self, Write as _},
        net::TcpListener,
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
        time::Duration,
    };

    use futures_util::future::BoxFuture;
    use serde_json::value::RawValue;
    use sortie_base::descriptors::PAUSE;
    use sortie_sandbox::{
        AtTimeout, Capabilities, Command, Enforcement, ExitKind, Finished, Level, Limits, Piped, RelPath,
        StreamOutput, Tenancy, Usage,
    };
    use tokio::time::Instant;

    use super::*;
    use crate::workspace::{Gateway, Source, Workspace};

    /// Number of tries of each kind that find no descriptor.
    const FULL: u32 = 3;

    fn has_room(tries: &AtomicU32) -> Result<(), Error> {
        if tries.fetch_add(1, Ordering::Relaxed) < FULL {
            {
                let full = io::Error::from_raw_os_error(24);
                Err(Error::of_setup(&full, full.to_string()))
            }
        } else {
            Ok(())
        }
    }

    /// Backend and sandbox without descriptors at first.
    #[derive(Clone, Default)]
    struct Full(Arc<Tries>);

    #[derive(Default)]
    struct Tries {
        opens: AtomicU32,
        egresses: AtomicU32,
        commands: AtomicU32,
    }

    static CAPABILITIES: Capabilities = Capabilities {
        level: Level::None,
        memory: Enforcement::Soft,
        disk: Enforcement::Soft,
        tenancy: Tenancy::Single,
        egress: true,
        missing: Vec::new(),
    };

    impl Backend for Full {
        fn capabilities(&self) -> &Capabilities {
            &CAPABILITIES
        }

        fn open<'a>(
            &'a self,
            _workdir: &'a Workdir,
            _spec: Spec,
        ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
            Box::pin(async {
                has_room(&self.0.opens)?;
                Ok(Box::new(self.clone()) as Box<dyn Sandbox>)
            })
        }
    }

    impl Sandbox for Full {
        fn exec(&mut self, _command: Command) -> BoxFuture<'_, Result<Finished, Error>> {
            Box::pin(async {
                has_room(&self.0.commands)?;
                Ok(Finished {
                    exit: ExitKind::Code(0),
                    stdout: StreamOutput::default(),
                    stderr: StreamOutput::default(),
                    stored: [None, None],
                    duration: Duration::ZERO,
                    released: None,
                })
            })
        }

        fn start(&mut self, _argv: Vec<String>) -> BoxFuture<'_, Result<Piped, Error>> {
            Box::pin(async { Err(Error::Lost("it starts no programs".to_owned())) })
        }

        fn egress(&mut self) -> BoxFuture<'_, Result<Option<TcpListener>, Error>> {
            Box::pin(async { has_room(&self.0.egresses).map(|()| None) })
        }

        fn usage(&mut self) -> BoxFuture<'_, Result<Usage, Error>> {
            Box::pin(async { Ok(Usage::default()) })
        }

        fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
            Box::pin(async { Ok(()) })
        }
    }

    impl Gateway for Full {
        fn serve(&self, _listener: TcpListener) -> BoxFuture<'static, ()> {
            Box::pin(async {})
        }
    }

    fn workspace(dir: &tempfile::TempDir, full: &Full) -> Workspace {
        let root = dir.path().to_owned();
        Workspace::new(root, "run".to_owned(), Arc::new(full.clone()), Limits::default())
    }

    /// Takes all descriptors of the process except some.
    fn all_but(room: usize) -> Vec<File> {
        let mut held = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            held.push(file);
        }
        held.truncate(held.len() - room);
        held
    }

    /// Releases descriptors after some tries.
    async fn released(held: Vec<File>) {
        tokio::time::sleep(4 * PAUSE).await;
        drop(held);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sandbox_is_opened_once_there_are_descriptors() {
        let (dir, full, begun) = (tempfile::tempdir().unwrap(), Full::default(), Instant::now());
        let workdir = Workdir::create(dir.path(), "run").unwrap();
        open_sandbox(&full, &workdir, Spec::default()).await.unwrap();
        assert_eq!(full.0.opens.load(Ordering::Relaxed), FULL + 1);
        assert_eq!(begun.elapsed(), FULL * PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_is_run_once_there_are_descriptors_for_each_of_its_parts() {
        let (dir, full, begun) = (tempfile::tempdir().unwrap(), Full::default(), Instant::now());
        let mut workspace = workspace(&dir, &full);
        workspace.open_egress(Arc::new(full.clone()));
        let command = Command {
            argv: vec!["true".to_owned()],
            timeout: Duration::from_secs(1),
            at_timeout: AtTimeout::Kill,
            keep_bytes: 0,
            store_bytes: 0,
            watch: None,
        };
        let finished = workspace.exec(None, command).await.unwrap();
        assert_eq!(finished.exit, ExitKind::Code(0));
        for tries in [&full.0.opens, &full.0.commands] {
            assert_eq!(tries.load(Ordering::Relaxed), FULL + 1);
        }
        // Requested before each try of the command.
        assert_eq!(full.0.egresses.load(Ordering::Relaxed), 2 * FULL + 1);
        assert_eq!(begun.elapsed(), 3 * FULL * PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_working_directory_is_made_once_there_are_descriptors() {
        // With some descriptors, but fewer than needed, a try fails half-way.
        for room in 0..4 {
            let dir = tempfile::tempdir().unwrap();
            let mut workspace = workspace(&dir, &Full::default());
            let held = all_but(room);
            let (made, ()) = tokio::join!(workspace.directory(None), released(held));
            made.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn outputs_are_kept_and_a_directory_is_opened_again_once_there_are_descriptors() {
        for room in 0..3 {
            let dir = tempfile::tempdir().unwrap();
            let mut workspace = workspace(&dir, &Full::default());
            workspace.directory(None).await.unwrap();
            let held = all_but(room);
            let kept = workspace.keep_output("stdout", Source::Bytes(b"kept".to_vec()), 4);
            let (kept, ()) = tokio::join!(kept, released(held));
            let file = dir.path().join("run").join(kept.expect("it is kept"));
            assert_eq!(
                std::fs::read_to_string(file).unwrap(),
                "kept",
                "with room for {room}"
            );
            drop(workspace.stop().await);
            let (root, backend) = (dir.path().to_owned(), Arc::new(Full::default()));
            let held = all_but(room);
            let reopening = Workspace::reopen(root, "run".to_owned(), backend, Limits::default());
            let (reopened, ()) = tokio::join!(reopening, released(held));
            assert!(reopened.unwrap().is_some(), "with room for {room}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_staged_whole_once_there_are_descriptors() {
        for room in 0..3 {
            let dir = tempfile::tempdir().unwrap();
            let mut workspace = workspace(&dir, &Full::default());
            workspace.directory(None).await.unwrap();
            let mut saved = tempfile::tempfile().unwrap();
            saved.write_all(b"saved").unwrap();
            io::Seek::rewind(&mut saved).unwrap();
            let path = |path| RelPath::new(path).unwrap();
            let files = vec![
                (path("a/b/inline"), Source::Bytes(b"inline".to_vec())),
                (path("c/saved"), Source::File(saved)),
            ];
            let input = RawValue::from_string("7".to_owned()).unwrap();
            let held = all_but(room);
            let staged = async {
                workspace.stage(files).await.unwrap();
                workspace.directory(Some(&input)).await.unwrap();
            };
            tokio::join!(staged, released(held));
            for (file, content) in [
                ("a/b/inline", "inline"),
                ("c/saved", "saved"),
                ("input.json", "7"),
            ] {
                let read = std::fs::read_to_string(dir.path().join("run").join(file)).unwrap();
                assert_eq!(read, content, "{file} with room for {room}");
            }
        }
    }
}
