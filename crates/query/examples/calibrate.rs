//! Measures the CPU costs of operators on this machine and prints them as JSON: `calibrate`.

use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use sakiyomi_query::calibrate::{Effort, calibrate};

fn main() -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let calibration = calibrate(now, Effort::Full, &mut |group| {
        let seconds = begun.elapsed().as_secs_f64();
        writeln!(stderr(), "{seconds:6.2} s: {group}").is_ok()
    })?;
    writeln!(stderr(), "{:6.2} s", begun.elapsed().as_secs_f64())?;
    stdout().write_all(calibration.to_json().as_bytes())?;
    Ok(())
}
