//! The work of a helper that tries what a helper must not be able to do.

use std::{
    fs::{self, File},
    hint::black_box,
    io,
    net::TcpListener,
    os::unix::net::UnixStream,
    thread,
};

/// Does what the first word of the input says with the rest of it.
pub(crate) fn work(input: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(input).unwrap_or_default();
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "upper" => rest.to_uppercase().into_bytes(),
        "eat" => eat(),
        "spin" => loop {
            black_box(());
        },
        "crash" => {
            assert!(rest.is_empty(), "a crash that was asked for");
            Vec::new()
        }
        "long" => vec![b'x'; rest.len() * 1000],
        "reach" => reach().join("\n").into_bytes(),
        _ => Vec::new(),
    }
}

fn eat() -> Vec<u8> {
    let mut eaten = Vec::new();
    loop {
        eaten.push(black_box(vec![1_u8; 1 << 20]));
    }
}

/// Attempts that succeeded, and the size of the environment.
fn reach() -> Vec<String> {
    // SAFETY: these calls do not read or write memory.
    let numbers = unsafe { [libc::fork(), libc::kill(libc::getppid(), 0), libc::dup(1)] };
    let attempts: [(&str, io::Result<()>); 6] = [
        ("read", fs::read("/etc/passwd").map(drop)),
        ("write", File::create("/tmp/helper-was-here").map(drop)),
        ("listen", TcpListener::bind("127.0.0.1:0").map(drop)),
        ("connect", UnixStream::connect("/run/x").map(drop)),
        ("thread", thread::Builder::new().spawn(|| {}).map(drop)),
        ("list", fs::read_dir("/").map(drop)),
    ];
    let mut said: Vec<String> = attempts
        .into_iter()
        .filter_map(|(name, outcome)| outcome.is_ok().then(|| name.to_owned()))
        .collect();
    said.extend(
        numbers
            .iter()
            .filter(|number| **number != -1)
            .map(|_| "call".to_owned()),
    );
    said.push(format!("environment: {}", std::env::vars_os().count()));
    said
}
