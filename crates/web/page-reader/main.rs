//! The page reader of the tests, equivalent to the real binary with the argument that selects the reader.

fn main() {
    sortie_web::reader_main();
}
