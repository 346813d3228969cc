//! The command as its users meet it, in one binary: one link instead of thirteen.

mod accuracy;
mod cli;
mod completion;
mod doctor;
mod documented;
mod fifo;
mod fit;
mod fuse;
mod gnu;
mod import;
mod iorate;
mod manual;
mod mistakes;
mod mount;
mod pipe;
mod probe;
mod run;
mod run_unusual;
mod scratch;
mod slow;
mod stand_in;
mod stand_in_random;
mod stdout;
mod tables;
mod validate;
mod version;
