//! Commands that outlast their time in the pretended sandbox.

use futures_util::future::BoxFuture;
use sortie_sandbox::{Error, ExitKind, Process, ProcessEnd, Released};

/// A released command that prints one more line and ends like this, if it does.
pub(super) fn released(end: Option<Result<ExitKind, &'static str>>) -> Released {
    Released {
        stdout: Box::new(std::io::Cursor::new(b"and on\n")),
        stderr: Box::new(tokio::io::empty()),
        process: Box::new(PretendedProcess(end)),
    }
}

struct PretendedProcess(Option<Result<ExitKind, &'static str>>);

impl Process for PretendedProcess {
    fn wait(&mut self) -> BoxFuture<'_, Result<ProcessEnd, Error>> {
        Box::pin(async {
            match self.0 {
                None => std::future::pending().await,
                Some(Ok(exit)) => Ok(ProcessEnd {
                    exit,
                    stderr: Vec::new(),
                    left: false,
                }),
                Some(Err(why)) => Err(Error::Lost(why.to_owned())),
            }
        })
    }

    fn kill(self: Box<Self>) -> BoxFuture<'static, Result<ProcessEnd, Error>> {
        Box::pin(async {
            Ok(ProcessEnd {
                exit: ExitKind::Signal(9),
                stderr: Vec::new(),
                left: false,
            })
        })
    }
}
