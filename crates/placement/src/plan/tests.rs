//! Plans compared with all placements of small pipelines.

mod brute;
mod chain;
mod graph;
mod random;
mod rates;
