//! Figures of the kernel about this process, with the names that every Prometheus client uses.

use procfs::{ProcResult, WithCurrentSystemInfo as _, process::LimitValue};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

/// Collector that reads `/proc/self` on each scrape.
#[derive(Debug)]
pub(super) struct Process;

/// Figures from the kernel.
struct Read {
    cpu_seconds: f64,
    /// Since 1970.
    start_seconds: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    threads: i64,
    open_files: u64,
    most_open_files: Option<u64>,
}

fn read() -> ProcResult<Read> {
    let process = procfs::process::Process::myself()?;
    let stat = process.stat()?;
    let seconds = |ticks: u64| std::time::Duration::from_millis(ticks * 1_000 / procfs::ticks_per_second());
    Ok(Read {
        cpu_seconds: seconds(stat.utime + stat.stime).as_secs_f64(),
        start_seconds: (std::time::Duration::from_secs(procfs::boot_time_secs()?) + seconds(stat.starttime))
            .as_secs_f64(),
        resident_bytes: stat.rss_bytes().get(),
        virtual_bytes: stat.vsize,
        threads: stat.num_threads,
        open_files: process.fd_count()? as u64,
        most_open_files: match process.limits()?.max_open_files.soft_limit {
            LimitValue::Value(most) => Some(most),
            LimitValue::Unlimited => None,
        },
    })
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let read = match read() {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%error, "cannot read the figures of this process: its metrics are left out");
                return Ok(());
            }
        };
        ConstCounter::new(read.cpu_seconds).encode(encoder.encode_descriptor(
            "cpu_seconds",
            "Processor time that the process has used, in user mode and in the kernel.",
            None,
            MetricType::Counter,
        )?)?;
        ConstGauge::new(read.start_seconds).encode(encoder.encode_descriptor(
            "start_time_seconds",
            "Start time of the process, in seconds since 1970.",
            None,
            MetricType::Gauge,
        )?)?;
        let mut gauge = |name: &str, help: &str, value: u64| {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
        };
        gauge(
            "resident_memory_bytes",
            "Memory of the process that is in main memory.",
            read.resident_bytes,
        )?;
        gauge(
            "virtual_memory_bytes",
            "Address space of the process.",
            read.virtual_bytes,
        )?;
        gauge(
            "threads",
            "Threads of the process.",
            u64::try_from(read.threads).unwrap_or(0),
        )?;
        gauge(
            "open_fds",
            "File descriptors that the process has open.",
            read.open_files,
        )?;
        if let Some(most) = read.most_open_files {
            gauge(
                "max_fds",
                "File descriptors that the process may have open at once.",
                most,
            )?;
        }
        Ok(())
    }
}
