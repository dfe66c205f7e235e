//! libFuzzer with the target `model_event`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sortie_fuzz::targets::model_event::check(data));
