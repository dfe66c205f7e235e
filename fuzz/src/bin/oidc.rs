//! libFuzzer with the target `oidc`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sortie_fuzz::targets::oidc::check(data));
