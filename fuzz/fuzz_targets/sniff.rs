//! A file whose format is to be recognized, packed or not.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sakiyomi_trace::fuzz::sniff(data));
