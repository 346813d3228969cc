//! Experiments beyond the scenario files (`scenarios/kochi2023-*.toml`): the search over all margins, writers, load
//! that changes, flash.
//!
//! `cargo run --release -p sakiyomi-regulate --example kochi2023 -- WHAT [SEEDS]`, where WHAT is one of the tables
//! below.
#![allow(clippy::print_stdout, clippy::print_stderr, missing_docs)]

mod flash;
mod tables;
mod world;

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let seeds = arguments.next().and_then(|seeds| seeds.parse().ok()).unwrap_or(3);
    let known = tables::TABLES.iter().find(|(name, ..)| *name == what);
    match known {
        Some((_, _, print)) => print(seeds),
        None => {
            tables::TABLES.iter().for_each(|(name, about, _)| eprintln!("{name:10} {about}"));
            return std::process::ExitCode::from(2);
        }
    }
    std::process::ExitCode::SUCCESS
}
