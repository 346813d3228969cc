//! Dispatches in the blktrace of a Hadoop node, decoded to CSV: `issue_us,lba512,sectors,op`.

use super::{Header, Parser, SECTOR_BYTES};
use crate::field::{NANOS_PER_US, Problem, blocks, commas, nanos, operation};
use crate::record::Record;

const HEADER: &str = "issue_us,lba512,sectors,op";

#[derive(Default)]
pub(super) struct Reader {
    header: Header,
}

impl Parser for Reader {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem> {
        if self.header.take(line, HEADER)? {
            return Ok(());
        }
        let [issue, lba, sectors, op] = commas(line)?;
        let op = operation(op, "R", "W")?;
        out.push(Record::new(
            nanos(issue, NANOS_PER_US, "issue_us")?,
            op,
            blocks(lba, SECTOR_BYTES, "lba512")?,
            blocks(sectors, SECTOR_BYTES, "sectors")?,
        ));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, parse_text};
    use super::*;
    use sakiyomi_model::{Bytes, Nanos, Op};

    #[test]
    fn a_line_after_the_header() {
        let text = format!("{HEADER}\n2848845,173488,8,W\n");
        let wanted = Record::new(Nanos(2_848_845_000), Op::Write, Bytes(173_488 * 512), Bytes(4096));
        assert_eq!(parse_text(Format::Hadoop, &text).unwrap(), [wanted]);
    }

    #[test]
    fn bad_lines_are_refused_by_column() {
        let error = |text: &str| parse_text(Format::Hadoop, text).unwrap_err();
        assert!(error("0,1,8,R").starts_with("the header line is missing"));
        assert!(error(&format!("{HEADER}\n0,1,8,RW")).starts_with("the operation is `RW`"));
    }
}
