//! libFuzzer with the target `picture`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sortie_fuzz::targets::picture::check(data));
