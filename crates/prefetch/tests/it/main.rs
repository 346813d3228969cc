//! Tests of readers and programs on real mounts, in one binary.

#[path = "../../../mount/tests/it/mounted/mod.rs"]
mod mounted;
mod ranges;
mod reader;
mod traced;
