//! The command from the user's view, in one test binary: one link instead of thirteen.

mod accuracy;
mod cli;
#[allow(dead_code, reason = "the client of the tests of sakiyomi-nbd, of which a part is used")]
#[path = "../../../nbd/tests/it/client.rs"]
mod client;
mod completion;
mod daemon;
mod doctor;
mod documented;
mod explain;
mod external;
mod fifo;
mod fit;
mod fuse;
mod gnu;
mod group;
mod import;
mod iorate;
mod manual;
mod measure;
mod mistakes;
mod mount;
mod pipe;
mod probe;
mod profile;
mod progress;
mod query;
mod record;
mod reproduce;
mod run;
mod run_unusual;
mod scratch;
mod serve;
mod shards;
mod slow;
mod stand_in;
mod stand_in_random;
mod stdout;
mod stream;
mod stream_export;
mod stream_resume;
mod tables;
mod validate;
mod version;
