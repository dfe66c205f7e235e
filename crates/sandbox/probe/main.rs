//! The helper of the sandbox's tests: their launcher, the program that they run inside, and the hosts they run on.
//!
//! Inside, `escape` tries everything that must not work and prints one line per attempt, and `ask` prints the proxy's answers;
//! each other word exhausts a resource or leaves processes running. Outside, `host` becomes a host with fewer rights and runs a
//! program there, `engine` is a small engine that can be killed, and `helper` is a helper process.

#![expect(
    unsafe_code,
    reason = "it makes the system calls that a sandbox has to refuse"
)]

mod bombs;
mod disk;
mod engine;
mod escape;
mod helper;
mod hoard;
mod host;
mod raw;
mod starve;

use std::process::ExitCode;

fn main() -> ExitCode {
    sortie_sandbox::launcher_main();
    sortie_sandbox::helper_main("helper", helper::work);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.split_first() {
        Some((&"escape", rest)) => {
            escape::run(rest);
            Ok(())
        }
        Some((&"ask", _)) => escape::ask_proxy(),
        Some((&"host", rest)) => host::run(rest),
        Some((&"engine", rest)) => engine::run(rest),
        Some((&"disk", rest)) => disk::run(rest),
        Some((&"starve", rest)) => starve::run(rest),
        Some((bomb, rest)) => bombs::run(bomb, rest),
        None => Err("no word".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            raw::say_to_stderr(&format!("sandbox-probe: {error}\n"));
            ExitCode::FAILURE
        }
    }
}
