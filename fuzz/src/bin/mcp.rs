//! libFuzzer with the target `mcp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sortie_fuzz::targets::mcp::check(data));
