//! libFuzzer with the target `mcp_endpoint`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sortie_fuzz::targets::mcp_endpoint::check(data));
