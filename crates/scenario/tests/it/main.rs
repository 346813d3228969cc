//! Experiments and properties of the whole stack in virtual time, in one binary.

mod cerium2014;
mod kochi2023;
mod properties;
mod stream_changes;
mod stream_look_ups;
mod stream_placements;
mod stream_queues;
mod waseda2006;
mod workload;
mod world;
