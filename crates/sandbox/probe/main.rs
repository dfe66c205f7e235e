//! The helper of the sandbox's tests: their launcher, and the program they run inside.

fn main() {
    sortie_sandbox::launcher_main();
}
