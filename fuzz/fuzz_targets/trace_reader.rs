//! The first byte picks a trace format, the rest is the file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sakiyomi_trace::fuzz::trace_reader(data));
