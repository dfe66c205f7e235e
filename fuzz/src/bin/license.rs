//! libFuzzer with the target `license`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sortie_fuzz::targets::license::check(data));
