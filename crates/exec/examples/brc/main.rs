//! The One Billion Row Challenge: minimum, mean and maximum temperature by station, of lines `station;-12.3`.
//!
//!     cargo run --release -p sakiyomi-exec --example brc -- measurements.txt
//!
//! Each thread has a table of its own. `bench/blocked` compares it with rayon on one mapping.

mod table;

use std::error::Error;
use std::path::Path;

use sakiyomi_exec::read::{self, blocked_read};

use table::Table;

/// Bytes of a wrong line that an error shows.
const SHOWN_BYTES: usize = 80;

/// Returns the measurements of a file by station.
///
/// # Errors
/// If it cannot be read, or a line is not a measurement.
pub(crate) fn stations(path: &Path) -> Result<Table, read::Error> {
    let refused = |line: &[u8]| {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let shown = String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]).into_owned();
        format!("{shown:?} is not a measurement; one is as \"Tokyo;-3.1\"")
    };
    let add = |table: &mut Table, lines: read::Block<'_>| table.add_lines(&lines).map_err(refused);
    Ok(blocked_read(path).records(b'\n').try_fold(Table::default, add, Table::merged)?.0)
}

#[allow(clippy::print_stdout, dead_code, reason = "the result; tests call the function")]
fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("give a file of measurements")?;
    println!("{}", stations(path.as_ref())?);
    Ok(())
}
