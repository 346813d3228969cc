//! The One Billion Row Challenge: minimum, mean and maximum temperature by station, of lines `station;-12.3`.
//!
//!     cargo run --release -p sakiyomi-exec --example brc -- measurements.txt
//!
//! Each thread has a table of its own ([`fold`](sakiyomi_exec::read::Records::fold)); reducing a table for each block
//! would take longer than filling it.

mod table;

use std::error::Error;

use sakiyomi_exec::read::blocked_read;

use table::Table;

#[expect(clippy::print_stdout, reason = "the result")]
fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("give a file of measurements")?;
    let (stations, _) = blocked_read(path).records(b'\n').try_fold(
        Table::default,
        |table, lines| {
            let refused = |line: &[u8]| {
                format!("not a measurement: {:?}", String::from_utf8_lossy(&line[..line.len().min(80)]))
            };
            table.add_lines(&lines).map_err(refused)
        },
        Table::merged,
    )?;
    println!("{stations}");
    Ok(())
}
