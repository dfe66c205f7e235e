//! A small engine that opens one sandbox, runs a command in it, and waits to be killed.

use std::{path::PathBuf, time::Duration};

use sortie_sandbox::{AtTimeout, Command, Level, Options, Spec, Workdir, detect};

use crate::raw::{Outcome, say};

/// Arguments: a folder, the level, a shell script.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let [root, level, script] = arguments else {
        return Err("engine FOLDER LEVEL SCRIPT".into());
    };
    let level = if *level == "namespaces" {
        Level::Namespaces
    } else {
        Level::Landlock
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let options = Options {
        minimum: level,
        strongest: level,
        ..Options::new(PathBuf::from(root))
    };
    runtime.block_on(async {
        let backend = detect(&options).await?;
        let workdir = Workdir::create(&options.root, "run_of_an_engine")?;
        let mut sandbox = backend.open(&workdir, Spec::default()).await?;
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        let command = Command {
            argv,
            timeout: Duration::from_mins(1),
            at_timeout: AtTimeout::Kill,
            keep_bytes: 1_024,
            store_bytes: 0,
            watch: None,
        };
        let finished = sandbox.exec(command).await?;
        say(&format!("ready {:?}\n", finished.exit));
        tokio::time::sleep(Duration::from_mins(10)).await;
        Ok(())
    })
}
