//! A Parquet file that is opened and scanned.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sakiyomi_query::table::fuzz::parquet(data));
