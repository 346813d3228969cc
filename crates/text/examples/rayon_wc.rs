//! Comparison for `bench/blocked_read.py`: the same kernel over one mapping of the whole file, divided by rayon.

use std::sync::Arc;

use rayon::prelude::*;
use sakiyomi_io::Access;
use sakiyomi_io::read::Single;
use sakiyomi_os::ctype::Characters;
use sakiyomi_text::count::{Counter, Part, Wanted};

#[expect(clippy::print_stdout, reason = "it is what it is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("which file?")?;
    let wanted = Wanted { words: true, ..Wanted::default() };
    let counter =
        Counter::new(Arc::new(Characters::from_environment()), wanted, true).ok_or("which locale?")?;
    let file = Single::open(path.as_ref(), Access::Buffered)?;
    let mapped = file.map(0..file.file().size())?;
    let count = |chunk| counter.count(chunk);
    let whole =
        mapped.par_chunks(1 << 20).map(count).reduce(Part::default, |part, next| counter.join(part, &next));
    let figures = counter.figures(&whole);
    println!("{} {}", figures.lines, figures.words);
    Ok(())
}
