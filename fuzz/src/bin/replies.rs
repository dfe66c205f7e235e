//! libFuzzer with the target `replies`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sortie_fuzz::targets::replies::check(data));
