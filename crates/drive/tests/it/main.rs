//! The drive from outside, in one binary: one link instead of seven.

#[path = "../common/mod.rs"]
mod common;

mod any_setting;
mod classes;
mod closed_form;
mod commands;
mod consumer_drive;
mod device;
mod drives;
mod running;
mod streams;
