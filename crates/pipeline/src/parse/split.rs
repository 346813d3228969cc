//! Lines whose fields stand between separators. Pure.

use memchr::memchr;

use super::{Bad, Slots};
use crate::row::RowBuilder;

/// Fields between separators: each of these bytes separates; blanks and tabs separate together, as in awk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    Blanks,
    Byte(u8),
}

/// Reads the fields of a line that begins at `start` of its block.
pub(super) fn parse(
    separator: Separator,
    slots: &Slots,
    line: &str,
    start: usize,
    out: &mut RowBuilder,
) -> Result<(), Bad> {
    match separator {
        Separator::Byte(byte) => by_byte(byte, slots, line, start, out),
        Separator::Blanks => by_blanks(slots, line, start, out),
    }
}

fn by_byte(byte: u8, slots: &Slots, line: &str, start: usize, out: &mut RowBuilder) -> Result<(), Bad> {
    let (bytes, mut at) = (line.as_bytes(), 0);
    for field in 0..slots.used_fields() {
        let end = memchr(byte, &bytes[at..]).map_or(bytes.len(), |length| at + length);
        slots.set(field, &line[at..end], start + at, out)?;
        at = end + 1;
        if at > bytes.len() && field + 1 < slots.used_fields() {
            return Err(Bad::Fields(field + 1));
        }
    }
    Ok(())
}

fn by_blanks(slots: &Slots, line: &str, start: usize, out: &mut RowBuilder) -> Result<(), Bad> {
    let (bytes, mut at) = (line.as_bytes(), 0);
    let is_blank = |byte: u8| byte == b' ' || byte == b'\t';
    for field in 0..slots.used_fields() {
        while at < bytes.len() && is_blank(bytes[at]) {
            at += 1;
        }
        if at == bytes.len() {
            return Err(Bad::Fields(field));
        }
        let begin = at;
        while at < bytes.len() && !is_blank(bytes[at]) {
            at += 1;
        }
        slots.set(field, &line[begin..at], start + begin, out)?;
    }
    Ok(())
}
