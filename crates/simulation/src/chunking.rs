//! The length of a chunk as text.

use sakiyomi_drive::observe::Chunking;
use sakiyomi_model::{Bytes, Nanos};

use crate::Error;

/// Parses the length of a chunk: `time=1s`, `bytes=64MiB`, `commands=1000`.
///
/// # Errors
/// If it is written otherwise, is 0, or a time of less than 1 ms.
pub fn parse_chunking(text: &str) -> Result<Chunking, Error> {
    parse(text).map_err(Error::Chunk)
}

fn parse(text: &str) -> Result<Chunking, String> {
    let (kind, size) = text.split_once('=').ok_or("write it like time=1s, bytes=64MiB or commands=1000")?;
    let positive = |is_positive: bool| if is_positive { Ok(()) } else { Err("it must be more than 0") };
    match kind {
        "time" => {
            let time: Nanos = size.parse().map_err(|error| format!("{error}"))?;
            // Every chunk is closed, even an empty one: shorter ones would cost more than the simulation.
            if time < Nanos::MILLISECOND {
                return Err("it must be at least 1ms".to_owned());
            }
            Ok(Chunking::Time(time))
        }
        "bytes" => {
            let bytes: Bytes = size.parse().map_err(|error| format!("{error}"))?;
            positive(!bytes.is_zero())?;
            Ok(Chunking::Bytes(bytes))
        }
        "commands" => {
            let commands: u64 = size
                .parse()
                .map_err(|error| format!("the number of commands is not a whole number: {error}"))?;
            positive(commands > 0)?;
            Ok(Chunking::Commands(commands))
        }
        _ => Err(format!("a chunk is given in time, bytes or commands, not in `{kind}`")),
    }
}
