//! Patience with a machine that has no file descriptor left: others give theirs back, and what needs one is tried again.

use std::{io, time::Duration};

use sortie_sandbox::{Backend, Error, Sandbox, Spec, Workdir};
use tokio::time::Instant;

/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(250);

/// Time for which a descriptor is waited for.
const TIME: Duration = Duration::from_mins(1);

/// Error numbers of a process, and of a machine, that has no descriptor left: `EMFILE` and `ENFILE` of Linux.
const NO_DESCRIPTOR: [i32; 2] = [24, 23];

/// Returns true where an error says that there is no file descriptor.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    error
        .raw_os_error()
        .is_some_and(|number| NO_DESCRIPTOR.contains(&number))
}

/// Tries left for something that needs a file descriptor.
#[derive(Debug)]
pub(crate) struct Patience {
    until: Instant,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self {
            until: Instant::now() + TIME,
        }
    }

    /// Waits before another try. Returns false where the time is over.
    pub(crate) async fn wait(&self) -> bool {
        if Instant::now() >= self.until {
            return false;
        }
        tokio::time::sleep(PAUSE).await;
        true
    }
}

/// Opens a sandbox, as soon as there are descriptors for it.
pub(crate) async fn open_sandbox(
    backend: &dyn Backend,
    workdir: &Workdir,
    spec: Spec,
) -> Result<Box<dyn Sandbox>, Error> {
    let patience = Patience::new();
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
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
    };

    use futures_util::future::BoxFuture;
    use sortie_sandbox::{Capabilities, Limits};

    use super::*;
    use crate::workspace::Workspace;

    /// Has no descriptor for the first opens.
    #[derive(Default)]
    struct Full(AtomicU32);

    impl Backend for Full {
        fn capabilities(&self) -> &Capabilities {
            unreachable!()
        }

        fn open<'a>(
            &'a self,
            _workdir: &'a Workdir,
            _spec: Spec,
        ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
            let reason = if self.0.fetch_add(1, Ordering::Relaxed) < 3 {
                io::Error::from_raw_os_error(24).to_string()
            } else {
                "another reason".to_owned()
            };
            Box::pin(async { Err(Error::Setup(reason)) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sandbox_is_opened_once_there_are_descriptors() {
        let (dir, full, begun) = (tempfile::tempdir().unwrap(), Full::default(), Instant::now());
        let workdir = Workdir::create(dir.path(), "run").unwrap();
        let Err(error) = open_sandbox(&full, &workdir, Spec::default()).await else {
            panic!("it is never opened")
        };
        assert!(error.to_string().contains("another reason"), "{error}");
        assert_eq!(full.0.load(Ordering::Relaxed), 4);
        assert_eq!(begun.elapsed(), 3 * PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_working_directory_is_made_once_there_are_descriptors() {
        // With room for some, but not for all that it takes, a try fails half-way.
        for room in 0..4 {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().to_owned();
            let mut workspace = Workspace::new(
                root,
                "run".to_owned(),
                Arc::new(Full::default()),
                Limits::default(),
            );
            let mut held = Vec::new();
            while let Ok(file) = File::open("/dev/null") {
                held.push(file);
            }
            held.truncate(held.len() - room);
            let (made, ()) = tokio::join!(workspace.directory(None), async {
                tokio::time::sleep(4 * PAUSE).await;
                drop(held);
            });
            made.unwrap();
        }
    }

    #[test]
    fn what_the_kernel_says_of_a_full_table_is_understood() {
        for (number, is_out) in [(24, true), (23, true), (2, false)] {
            let error = io::Error::from_raw_os_error(number);
            assert_eq!(is_out_of_descriptors(&error), is_out, "{error}");
        }
        assert!(!is_out_of_descriptors(&io::Error::other("Too many open files")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_descriptor_is_waited_for_for_a_minute() {
        let (patience, begun) = (Patience::new(), Instant::now());
        while patience.wait().await {}
        assert_eq!(begun.elapsed(), TIME);
    }
}
