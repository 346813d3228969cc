//! Parquet files in tables.
//!
//! The library decodes. This module decides which bytes are read when, how many are in memory, and which page sizes are
//! accepted. A row group whose projected columns fit twice into a worker's share is read whole while the previous one
//! is decoded. Its pages are slices of it. A large one is divided among the workers if there are few (`division.rs`), or
//! its columns are read through windows. If even one page
//! per column exceeds the memory, the columns are decoded in sets and spilled.

mod chunk;
mod column_sets;
mod declared_order;
mod delta;
mod division;
mod footer;
mod group;
mod groups;
mod levels;
mod page_memory;
mod pages;
mod plan;
mod rows;
mod scan;
mod statistics;
mod storage;
mod thrift;
mod window;
mod zones;

pub(super) use declared_order::declared_order;
pub(super) use division::{Divisions, divided, divisions, workers};
pub(super) use footer::ParquetFile;
pub(super) use page_memory::page_memory;
pub(super) use plan::{ParquetPlan, Runs};
pub(super) use scan::ParquetScan;
pub(super) use statistics::{dictionary_columns, group_bounds, statistics};
pub(super) use storage::storage;
