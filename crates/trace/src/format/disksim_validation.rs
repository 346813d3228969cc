//! The measured traces used to validate DiskSim's drive models: `R Hit 1975456 4 15362.0 56074.0`, separated by spaces.
//!
//! Operation, label, LBN (512 bytes), sectors, measured service time in microseconds, and the think time in
//! microseconds from this command's completion to the next one's issue. One command is outstanding at a time: the trace
//! is a closed loop, and the sum of the last two columns is the run time.

use sakiyomi_model::Nanos;

use super::{Parser, SECTOR_BYTES};
use crate::field::{NANOS_PER_US, Problem, Shown, blanks, blocks, nanos, operation};
use crate::record::{HitLabel, Record};

pub(super) struct Reader;

impl Parser for Reader {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem> {
        let [op, label, lbn, sectors, service, think] = blanks(line)?;
        let op = operation(op, "R", "W")?;
        out.push(Record {
            response: Some(nanos(service, NANOS_PER_US, "service time (us)")?),
            think: Some(nanos(think, NANOS_PER_US, "think time (us)")?),
            label: Some(hit_label(label)?),
            ..Record::new(
                Nanos::ZERO,
                op,
                blocks(lbn, SECTOR_BYTES, "block number")?,
                blocks(sectors, SECTOR_BYTES, "block count")?,
            )
        });
        Ok(())
    }
}

/// Parses a label as spelled in these traces.
pub(super) fn hit_label(field: &[u8]) -> Result<HitLabel, Problem> {
    [HitLabel::Hit, HitLabel::Miss, HitLabel::Doub, HitLabel::Trip]
        .into_iter()
        .find(|label| label.name().as_bytes() == field)
        .ok_or_else(|| format!("the label is {}, but must be Hit, Miss, Doub or Trip", Shown(field)))
}

#[cfg(test)]
mod tests {
    use super::super::{Format, parse_text};
    use super::*;
    use sakiyomi_model::{Bytes, Op};

    #[test]
    fn lines_of_the_measured_drives() {
        let text = "R Miss  564347     2     14095.370     13876.270\nW Doub 1194877 15 17221.000 21894.380";
        let records = parse_text(Format::DisksimValidation, text).unwrap();
        let first = Record {
            response: Some(Nanos(14_095_370)),
            think: Some(Nanos(13_876_270)),
            label: Some(HitLabel::Miss),
            ..Record::new(Nanos::ZERO, Op::Read, Bytes(564_347 * 512), Bytes(1024))
        };
        assert_eq!(records[0], first);
        assert_eq!((records[1].op, records[1].label), (Op::Write, Some(HitLabel::Doub)));
    }

    #[test]
    fn bad_lines_are_refused_by_column() {
        let error = |line| parse_text(Format::DisksimValidation, line).unwrap_err();
        assert_eq!(error("r Hit 1 2 3 4"), "the operation is `r`, but must be R or W");
        assert_eq!(error("R Hot 1 2 3 4"), "the label is `Hot`, but must be Hit, Miss, Doub or Trip");
        assert!(error("R Hit 1 2 -3 4").starts_with("the column service time (us) holds `-3`"));
    }
}
