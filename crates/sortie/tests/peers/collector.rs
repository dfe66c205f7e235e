//! A collector of traces in Python, with OpenTelemetry's own description of the protocol, which `scripts/peers`
//! installs.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
};

use sortie_testkit::{PATIENCE, prelude::*};
use tempfile::TempDir;
use tokio::{sync::watch, time::timeout};

use crate::peer;

/// A running collector; dropping it ends it.
pub(crate) struct Collector {
    child: Child,
    port: u64,
    lines: watch::Receiver<Vec<Value>>,
    _folder: TempDir,
}

impl Collector {
    pub(crate) fn start() -> Result<Self> {
        let folder = TempDir::new()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/collector.py");
        let mut child = peer("venv/bin/python", &folder)?
            .arg(script.canonicalize()?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().context("no standard output")?;
        let mut said = BufReader::new(out)
            .lines()
            .map_while(|line| serde_json::from_str::<Value>(&line.ok()?).ok());
        let first = said
            .next()
            .context("the collector says nothing: run scripts/peers otlp")?;
        let (told, lines) = watch::channel(Vec::new());
        std::thread::spawn(move || {
            said.for_each(|line| told.send_modify(|all: &mut Vec<Value>| all.push(line)));
        });
        Ok(Self {
            child,
            port: first["port"].as_u64().context("no port")?,
            lines,
            _folder: folder,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The spans of a trace, once `enough` accepts them.
    pub(crate) async fn spans(
        &self,
        trace_id: &str,
        enough: impl Fn(&Trace) -> bool + Send + Sync,
    ) -> Result<Trace> {
        let mut lines = self.lines.clone();
        let waited = timeout(PATIENCE, lines.wait_for(|all| enough(&Trace::of(all, trace_id)))).await;
        let all = match waited {
            Ok(all) => all?.clone(),
            Err(_) => anyhow::bail!("not enough spans: {:#?}", self.seen(trace_id).0),
        };
        Ok(Trace::of(&all, trace_id))
    }

    /// The spans of a trace that have come so far.
    pub(crate) fn seen(&self, trace_id: &str) -> Trace {
        Trace::of(&self.lines.borrow(), trace_id)
    }

    /// The requests so far, headers and bodies.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let is_request = |line: &&Value| line.get("path").is_some();
        self.lines.borrow().iter().filter(is_request).cloned().collect()
    }

    /// Every span so far.
    pub(crate) fn all(&self) -> Vec<Value> {
        let lines = self.lines.borrow();
        lines
            .iter()
            .filter_map(|line| line.get("span").cloned())
            .collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // The process may have exited already, and the test has noticed by then.
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// Spans of one trace.
pub(crate) struct Trace(pub(crate) Vec<Value>);

impl Trace {
    fn of(lines: &[Value], trace_id: &str) -> Self {
        let spans = lines.iter().filter_map(|line| line.get("span"));
        Self(
            spans
                .filter(|span| span["trace_id"] == trace_id)
                .cloned()
                .collect(),
        )
    }

    pub(crate) fn named(&self, name: &str) -> Vec<&Value> {
        self.0.iter().filter(|span| span["name"] == name).collect()
    }

    /// The only span of a name.
    pub(crate) fn one(&self, name: &str) -> Result<&Value> {
        match self.named(name).as_slice() {
            [one] => Ok(*one),
            others => anyhow::bail!("{} spans are named {name}: {:#?}", others.len(), self.0),
        }
    }
}
