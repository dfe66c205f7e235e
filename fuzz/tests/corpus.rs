//! Checks the inputs of each corpus without the fuzzer, so that every change is tested with its previous findings.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    fs::{read, read_dir},
    path::{Path, PathBuf},
};

use sortie_fuzz::targets;

macro_rules! corpora {
    ($($target:ident)*) => {
        const TARGETS: &[&str] = &[$(stringify!($target)),*];

        $(#[test]
        fn $target() {
            for input in entries(stringify!($target)) {
                // If the target fails, the last printed input is the cause.
                println!("scripts/fuzz input {} {}", stringify!($target), input.display());
                targets::$target::check(&read(input).unwrap());
            }
        })*
    };
}

corpora!(html robots sse mcp mcp_endpoint model_event hello oauth oidc picture replies license stripe_webhook);

/// Returns the files of a corpus, or the corpora.
fn entries(folder: &str) -> BTreeSet<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(folder);
    let entries = read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let corpora = entries("");
    let names: BTreeSet<_> = corpora.iter().map(|path| path.file_name().unwrap()).collect();
    assert_eq!(names, TARGETS.iter().map(AsRef::as_ref).collect());
    assert!(
        corpora
            .iter()
            .all(|corpus| !entries(corpus.to_str().unwrap()).is_empty())
    );
}
