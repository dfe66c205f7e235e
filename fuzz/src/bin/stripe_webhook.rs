//! libFuzzer with the target `stripe_webhook`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sortie_fuzz::targets::stripe_webhook::check(data));
