//! Everything that must not work inside, tried. One line per attempt: `held`, `OPEN` or `NOT CHECKED`, its row in the
//! table of the sandbox's guarantees, its name, and what happened.

mod egress;
mod files;
mod identity;
mod kernel;
mod network;
mod processes;
mod shared;

use std::{collections::BTreeMap, io};

use crate::raw::{Outcome, say};

/// Facts about the host from the caller.
pub(crate) struct Host<'a> {
    facts: BTreeMap<&'a str, &'a str>,
}

impl Host<'_> {
    pub(crate) fn fact(&self, name: &str) -> &str {
        self.facts.get(name).copied().unwrap_or_default()
    }

    pub(crate) fn has_namespaces(&self) -> bool {
        self.fact("level") == "namespaces"
    }
}

/// Runs every attempt. Arguments: `name=value`.
pub(crate) fn run(arguments: &[&str]) {
    let host = Host {
        facts: arguments
            .iter()
            .filter_map(|argument| argument.split_once('='))
            .collect(),
    };
    files::try_all(&host);
    processes::try_all(&host);
    network::try_all(&host);
    kernel::try_all(&host);
    identity::try_all(&host);
    shared::try_all(&host);
    if !host.fact("proxy").is_empty() {
        egress::try_all(&host);
    }
    say("end\n");
}

/// Prints what the proxy answers.
pub(crate) fn ask_proxy() -> Outcome {
    say(&egress::ask()?);
    Ok(())
}

/// Reports an attempt that must fail in whatever way.
pub(crate) fn must_fail<T>(row: u32, name: &str, attempt: io::Result<T>) {
    match attempt {
        Ok(_) => line("OPEN", row, name, "it worked"),
        Err(error) => line("held", row, name, &error.to_string()),
    }
}

/// Reports a system call that must be refused as such: any other error means that it was carried out.
pub(crate) fn must_be_refused(row: u32, name: &str, result: Result<usize, i32>) {
    let refusals = [
        libc::EPERM,
        libc::ENOSYS,
        libc::EACCES,
        libc::EAFNOSUPPORT,
        libc::EPROTONOSUPPORT,
        libc::ESOCKTNOSUPPORT,
    ];
    match result {
        Err(errno) if refusals.contains(&errno) => {
            line(
                "held",
                row,
                name,
                &io::Error::from_raw_os_error(errno).to_string(),
            );
        }
        Err(errno) => line(
            "OPEN",
            row,
            name,
            &io::Error::from_raw_os_error(errno).to_string(),
        ),
        Ok(_) => line("OPEN", row, name, "it worked"),
    }
}

pub(crate) fn expect(row: u32, name: &str, held: bool, detail: &str) {
    line(if held { "held" } else { "OPEN" }, row, name, detail);
}

pub(crate) fn not_checked(row: u32, name: &str, why: &str) {
    line("NOT CHECKED", row, name, why);
}

fn line(result: &str, row: u32, name: &str, detail: &str) {
    say(&format!("{result}\t{row}\t{name}\t{detail}\n"));
}
