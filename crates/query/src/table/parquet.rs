//! Parquet files as parts of a table.
//!
//! The library decodes; which bytes are read when, how many are in memory, and which of its requests are granted is
//! decided here. A row group whose projected columns fit twice into a worker's share of memory is read whole, while the
//! one before it is decoded, and pages are slices of it. The columns of a larger one are read through windows. If even a
//! page of each column is too much, they are decoded a set at a time, and spilled.

mod chunk;
mod column_sets;
mod declared_order;
mod footer;
mod group;
mod pages;
mod plan;
mod rows;
mod scan;
mod statistics;
mod storage;
mod thrift;
mod window;

pub(super) use declared_order::declared_order;
pub(super) use footer::ParquetFile;
pub(super) use plan::{ParquetPlan, Runs};
pub(super) use scan::ParquetScan;
pub(super) use statistics::{dictionary_columns, statistics};
pub(super) use storage::storage;
