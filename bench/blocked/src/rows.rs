//! Rows of measurements, the same in each run.

use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Stations, as many as in the challenge.
const STATIONS: usize = 413;

pub(crate) fn write(path: &Path, rows: u64) -> Result<()> {
    let mut random = Pcg64::seed_from_u64(1);
    let stations: Vec<(String, i32)> = (0..STATIONS).map(|_| station(&mut random)).collect();
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for _ in 0..rows {
        let number = random.next_u64();
        let (name, mean) = &stations[(number % STATIONS as u64) as usize];
        // The sum of four numbers is about normally distributed, by 12 degrees.
        let spread: i32 = (0..4).map(|part| ((number >> (16 + 12 * part)) & 0xfff) as i32 % 120 - 60).sum();
        let tenths = (mean + spread).clamp(-999, 999);
        let sign = if tenths < 0 { "-" } else { "" };
        writeln!(out, "{name};{sign}{}.{}", tenths.abs() / 10, tenths.abs() % 10)?;
    }
    out.into_inner()?.sync_all()
}

/// Returns a name of 3 to 14 letters and the mean temperature.
fn station(random: &mut Pcg64) -> (String, i32) {
    let length = 3 + random.next_u32() % 12;
    let letter = |at: u32, random: &mut Pcg64| {
        let letter = (b'a' + (random.next_u32() % 26) as u8) as char;
        if at == 0 { letter.to_ascii_uppercase() } else { letter }
    };
    let name = (0..length).map(|at| letter(at, random)).collect();
    (name, (random.next_u32() % 400) as i32 - 50)
}
