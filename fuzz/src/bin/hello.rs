//! libFuzzer with the target `hello`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sortie_fuzz::targets::hello::check(data));
