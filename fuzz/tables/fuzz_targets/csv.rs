//! CSV that is opened and scanned, in a file and through a pipe.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sakiyomi_query::table::fuzz::csv(data));
