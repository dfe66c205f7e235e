//! libFuzzer with the target `oauth`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sortie_fuzz::targets::oauth::check(data));
