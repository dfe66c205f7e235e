//! libFuzzer with the target `html`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sortie_fuzz::targets::html::check(data));
