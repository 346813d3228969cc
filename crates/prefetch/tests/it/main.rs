//! Readers and programs on file systems that are really mounted, in one binary.

#[path = "../../../mount/tests/it/mounted/mod.rs"]
mod mounted;
mod reader;
mod traced;
