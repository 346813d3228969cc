//! The output formats of results.

mod charts;
mod html;
mod json;
mod markdown;
mod prometheus;
mod sample;
mod text;
mod tidy;
mod verdict;
