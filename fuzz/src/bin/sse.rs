//! libFuzzer with the target `sse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sortie_fuzz::targets::sse::check(data));
