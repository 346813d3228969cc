//! The native part of the Python package `sakiyomi`: `sakiyomi._native`, which `python/sakiyomi` completes.
//!
//! | file | content |
//! |---|---|
//! | `error.rs` | errors as exceptions, with the sentences of the commands |
//! | `buffer.rs` | memory that Python sees without a copy, and memory of Python's that is filled; all unsafe code |
//! | `blocks.rs` | `blocked_reads`: a thread that reads ahead, and the iterator over its blocks |
//! | `reader.rs` | the reader under `open_ahead` |
//! | `ranges.rs` | `prefetch`, and the mapped file under `load_safetensors` |
//! | `arrow.rs` | tables by the Arrow PyCapsule interface: of results, of traces in memory, of records of blocks |
//! | `options.rs` | arguments of simulations |
//! | `query.rs` | `sort`, `join`, `aggregate`: results as files and as streams of record batches |
//! | `live.rs` | the statements that run, which end before the interpreter does |
//! | `simulation.rs` | `simulate`, `sweep`, `compare`, `validate`, `fit`, `scenario`, `drives`, and the pages of reports |
//! | `parallel.rs` | items on all cores, while signals are checked |
//! | `waits.rs` | `io_report`: the waits of this process by file |
//! | `process.rs` | objects whose threads a forked process does not have |
//!
//! # Rules
//!
//! The interpreter is released while Rust waits or copies. No lock is held while the interpreter is acquired: a thread
//! that waits for a lock has released it. A wait of unknown length is made of short ones, between which signals are
//! checked, so that Ctrl-C ends it. No thread of Rust's touches an object of Python's.

mod arrow;
mod blocks;
mod buffer;
mod error;
mod live;
mod options;
mod parallel;
mod process;
mod query;
mod ranges;
mod reader;
mod simulation;
mod waits;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::arrow::{MemoryTrace, Table, generate_pc};
    #[pymodule_export]
    use crate::blocks::{Block, BlockedReads};
    #[pymodule_export]
    use crate::error::Error;
    #[pymodule_export]
    use crate::live::end_statements;
    #[pymodule_export]
    use crate::query::{QueryStream, aggregate, join, sort};
    #[pymodule_export]
    use crate::ranges::{MappedFile, MappedRange, Prefetch};
    #[pymodule_export]
    use crate::reader::Reader;
    #[pymodule_export]
    use crate::simulation::{
        compare, drives, fit, page, scenario, simulate, sweep_all, sweep_one, sweep_plan, sweep_result,
        validate,
    };
    #[pymodule_export]
    use crate::waits::IoWatch;
}
