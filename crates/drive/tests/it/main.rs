//! Tests of the drive's public interface, in one binary to link once instead of seven times.

#[path = "../common/mod.rs"]
mod common;

mod any_setting;
mod array;
mod classes;
mod closed_form;
mod commands;
mod consumer_drive;
mod device;
mod drives;
mod running;
mod streams;
