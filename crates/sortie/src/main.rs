//! `sortie`: the node and the command line in one binary.
//!
//! `main` does a few things before any command: it becomes a sandbox or a page reader if it was started as one, makes
//! the allocator return large blocks once they are free, keeps content out of panic messages, and reads the
//! environment. Commands live in `commands`; a node is put together in `node`.

mod archive;
mod args;
mod cassette;
mod client;
mod commands;
mod completion;
mod config;
mod connect;
mod contexts;
mod core_dumps;
mod data_dir;
mod failure;
mod follow;
mod input;
mod interruption;
mod logging;
mod named_engine;
mod node;
mod open_files;
mod organization_side;
mod panics;
mod piped;
mod printed;
mod prompt;
mod render;
mod scratch;
mod status_line;
mod telemetry;
mod terminal;
mod texts;
mod transcript;
mod user_folders;

use std::process::ExitCode;

use clap::{Parser as _, error::ErrorKind};
use futures_util::FutureExt as _;

use crate::{
    args::Cli,
    config::Environment,
    failure::{Exit, Failure},
};

fn main() -> ExitCode {
    sortie_sandbox::launcher_main();
    sortie_web::reader_main();
    sortie_sandbox::give_back_large_blocks();
    panics::install();
    completion::answer();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&Failure::internal(format!("no threads to work with: {error}"))),
    };
    // Boxed: otherwise the compiler spends minutes on one future of all commands.
    let command = commands::execute(cli, Environment::of_process()).boxed_local();
    let done = runtime.block_on(command);
    // Does not wait for blocking threads, such as one that reads standard input.
    runtime.shutdown_background();
    match done {
        Ok(exit) => exit.into(),
        Err(failure) => fail(&failure),
    }
}

fn fail(failure: &Failure) -> ExitCode {
    if !matches!(failure.exit, Exit::Success | Exit::Left) {
        terminal::error(&format!("sortie: {failure}"));
    }
    failure.exit.into()
}

/// Help and version go to standard output; a wrong command line is explained on standard error.
fn usage(error: &clap::Error) -> ExitCode {
    // If the streams are closed, the error cannot be shown.
    let _printed = error.print();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        Exit::Success.into()
    } else {
        Exit::Usage.into()
    }
}
