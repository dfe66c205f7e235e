//! Version that `--version` prints.

/// Version of the workspace. A build without optimization, such as that of `make demo`, says so.
pub(super) const SHOWN: &str = if cfg!(debug_assertions) {
    // The profiles `dev` and `demo` have assertions, `release` has none.
    concat!(env!("CARGO_PKG_VERSION"), " (demo build: not optimized)")
} else {
    env!("CARGO_PKG_VERSION")
};

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::args::Cli;

    #[test]
    fn a_build_that_is_not_optimized_says_so() {
        let shown = Cli::command().render_version();
        assert!(
            shown.starts_with(concat!("sortie ", env!("CARGO_PKG_VERSION"))),
            "{shown}"
        );
        assert_eq!(shown.contains("demo build"), cfg!(debug_assertions), "{shown}");
    }
}
