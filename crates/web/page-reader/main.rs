//! The page reader of the tests: what the real binary becomes by its first argument.

fn main() {
    sortie_web::reader_main();
}
