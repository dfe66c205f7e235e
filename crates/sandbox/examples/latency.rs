//! Measures the cost of a sandbox against a bare process: opening, one command, closing, a piped process, and many at once.
//!
//! `cargo run --release -p sortie-sandbox --example latency [namespaces|landlock|none] [rounds]`

use std::{
    error::Error,
    io::{self, Write},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;
use sortie_sandbox::{AtTimeout, Backend, Command, Egress, ExitKind, Level, Options, Spec, Workdir, detect};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const AT_ONCE: usize = 100;

#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn show(mut self, name: &str) -> io::Result<()> {
        self.0.sort_unstable();
        let at = |share: usize| {
            self.0
                .get(self.0.len() * share / 100)
                .map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
        };
        writeln!(
            io::stdout(),
            "{name:<32} p50 {:7.2} ms   p99 {:7.2} ms",
            at(50),
            at(99)
        )
    }
}

fn nothing() -> Command {
    Command {
        argv: vec!["/bin/true".to_owned()],
        timeout: Duration::from_secs(10),
        at_timeout: AtTimeout::Kill,
        keep_bytes: 1_024,
        store_bytes: 0,
        watch: None,
    }
}

async fn one(backend: &dyn Backend, root: &Path, name: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let workdir = Workdir::create(root, name)?;
    let mut sandbox = backend.open(&workdir, Spec::default()).await?;
    let finished = sandbox.exec(nothing()).await?;
    sandbox.close().await?;
    workdir.delete()?;
    if finished.exit == ExitKind::Code(0) {
        Ok(())
    } else {
        Err("the command failed".into())
    }
}

/// Measures egress and piped processes.
async fn measure_others(
    backend: &dyn Backend,
    root: &Path,
    rounds: usize,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (mut open, mut start, mut exchange) = (Times::default(), Times::default(), Times::default());
    let egress = if backend.capabilities().egress {
        Egress::Proxy
    } else {
        Egress::None
    };
    for round in 0..rounds {
        let workdir = Workdir::create(root, &format!("other_{round}"))?;
        let spec = Spec {
            egress,
            ..Spec::default()
        };
        let began = Instant::now();
        let mut sandbox = backend.open(&workdir, spec).await?;
        open.0.push(began.elapsed());
        let began = Instant::now();
        let mut piped = sandbox.start(vec!["cat".to_owned()]).await?;
        for turn in 0..10 {
            let sent = Instant::now();
            piped.stdin.write_all(&[0; 100]).await?;
            piped.stdout.read_exact(&mut [0; 100]).await?;
            if turn == 0 {
                start.0.push(began.elapsed());
            } else {
                exchange.0.push(sent.elapsed());
            }
        }
        sandbox.close().await?;
        workdir.delete()?;
    }
    open.show(if egress == Egress::Proxy {
        "open with a way out"
    } else {
        "open without a way out"
    })?;
    start.show("start cat, first answer")?;
    exchange.show("further answer")?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // Must run before the runtime starts: a launcher is single-threaded.
    sortie_sandbox::launcher_main();
    tokio::runtime::Runtime::new()?.block_on(measure())
}

async fn measure() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().collect();
    let level = match arguments.get(1).map(String::as_str) {
        Some("landlock") => Level::Landlock,
        Some("none") => Level::None,
        _ => Level::Namespaces,
    };
    let rounds = arguments.get(2).map_or(Ok(200), |text| text.parse())?;
    let root = std::env::temp_dir().join(format!("sortie-latency-{}", std::process::id()));
    let options = Options {
        minimum: level,
        strongest: level,
        ..Options::new(&root)
    };
    let began = Instant::now();
    let backend: Arc<dyn Backend> = detect(&options).await?;
    writeln!(
        io::stdout(),
        "{:?}, probed in {:.1?}",
        backend.capabilities(),
        began.elapsed()
    )?;

    let mut bare = Times::default();
    for _ in 0..rounds {
        let began = Instant::now();
        tokio::process::Command::new("/bin/true").spawn()?.wait().await?;
        bare.0.push(began.elapsed());
    }
    bare.show("bare process")?;

    let (mut open, mut first, mut again, mut close) = (
        Times::default(),
        Times::default(),
        Times::default(),
        Times::default(),
    );
    for round in 0..rounds {
        let workdir = Workdir::create(&root, &format!("run_{round}"))?;
        let began = Instant::now();
        let mut sandbox = backend.open(&workdir, Spec::default()).await?;
        open.0.push(began.elapsed());
        for turn in 0..3 {
            let began = Instant::now();
            sandbox.exec(nothing()).await?;
            if turn == 0 {
                first.0.push(began.elapsed());
            } else {
                again.0.push(began.elapsed());
            }
        }
        let began = Instant::now();
        sandbox.close().await?;
        close.0.push(began.elapsed());
        workdir.delete()?;
    }
    open.show("open")?;
    first.show("first command")?;
    again.show("further command")?;
    close.show("close")?;

    measure_others(backend.as_ref(), &root, rounds).await?;

    let names: Vec<String> = (0..AT_ONCE).map(|number| format!("many_{number}")).collect();
    let began = Instant::now();
    try_join_all(names.iter().map(|name| one(backend.as_ref(), &root, name))).await?;
    writeln!(
        io::stdout(),
        "{AT_ONCE} at once: {:.0?} in all, none failed",
        began.elapsed()
    )?;
    std::fs::remove_dir(&root)?;
    Ok(())
}
