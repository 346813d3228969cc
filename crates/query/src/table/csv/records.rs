//! Finding the ends of CSV records. Pure.

use memchr::{memchr, memchr_iter, memrchr};

/// Scanner state after the bytes seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// At the start of a field, where a quote starts a quoted field.
    #[default]
    FieldStart,
    /// Within an unquoted field, where a quote is an ordinary character.
    Field,
    /// Within quotes, where line ends are ordinary characters.
    Quoted,
    /// After a quote within quotes: a second quote is an escaped one, anything else follows the closing quote.
    QuoteInQuotes,
}

impl State {
    /// Returns the state after `bytes`.
    pub(super) fn after(self, bytes: &[u8]) -> State {
        let mut scanner = Scanner { state: self, last_end: None };
        scanner.scan(bytes);
        scanner.state
    }

    /// Length of the rest of a record with its line end; `None` if it does not end in `bytes`.
    pub(super) fn record_end(self, bytes: &[u8]) -> Option<usize> {
        let (mut state, mut from) = (self, 0);
        for end in memchr_iter(b'\n', bytes) {
            // The line end itself is excluded.
            state = state.after(&bytes[from..end]);
            if state != State::Quoted {
                return Some(end + 1);
            }
            from = end;
        }
        None
    }
}

/// Finds the ends of records in consecutive blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scanner {
    state: State,
    /// Offset after the block's last line end that ends a record.
    last_end: Option<usize>,
}

impl Scanner {
    /// Scans the next block. Returns the offset after its last complete record and line end; `None` if no record ends
    /// in it.
    pub(super) fn last_record_end(&mut self, block: &[u8]) -> Option<usize> {
        self.last_end = None;
        self.scan(block);
        self.last_end
    }

    fn scan(&mut self, block: &[u8]) {
        let mut at = 0;
        while at < block.len() {
            at = match self.state {
                State::FieldStart | State::Field => self.unquoted(block, at),
                State::Quoted => match memchr(b'"', &block[at..]) {
                    None => block.len(),
                    Some(quote) => {
                        self.state = State::QuoteInQuotes;
                        at + quote + 1
                    }
                },
                State::QuoteInQuotes => {
                    self.state = match block[at] {
                        b'"' => State::Quoted,
                        _ => {
                            // The byte is scanned again, as part of an unquoted field.
                            self.state = State::Field;
                            continue;
                        }
                    };
                    at + 1
                }
            };
        }
    }

    /// Skips unquoted fields up to a quote that starts a quoted field.
    fn unquoted(&mut self, block: &[u8], from: usize) -> usize {
        for quote in memchr_iter(b'"', &block[from..]) {
            let quote = from + quote;
            let begins_field = match quote.checked_sub(1).filter(|&before| before >= from) {
                Some(before) => matches!(block[before], b',' | b'\n' | b'\r'),
                None => self.state == State::FieldStart,
            };
            if begins_field {
                self.see_line_end(block, from, quote);
                self.state = State::Quoted;
                return quote + 1;
            }
        }
        self.see_line_end(block, from, block.len());
        if from < block.len() {
            let is_start = matches!(block[block.len() - 1], b',' | b'\n' | b'\r');
            self.state = if is_start { State::FieldStart } else { State::Field };
        }
        block.len()
    }

    fn see_line_end(&mut self, block: &[u8], from: usize, to: usize) {
        if let Some(end) = memrchr(b'\n', &block[from..to]) {
            self.last_end = Some(from + end + 1);
        }
    }
}

/// Length of the first record with its line end; `None` if it does not end in `bytes`.
pub(super) fn first_record(bytes: &[u8]) -> Option<usize> {
    State::default().record_end(bytes)
}

/// Reason to refuse a file whose byte `at` is not UTF-8.
pub(super) fn not_text(at: usize) -> String {
    format!("byte {at} is not UTF-8; convert the file to UTF-8, such as by iconv")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reference implementation, byte by byte.
    fn ends(bytes: &[u8]) -> Vec<usize> {
        let mut state = State::FieldStart;
        let mut ends = Vec::new();
        for (at, &byte) in bytes.iter().enumerate() {
            state = match (state, byte) {
                (State::FieldStart | State::QuoteInQuotes, b'"') => State::Quoted,
                (State::Quoted, b'"') => State::QuoteInQuotes,
                (State::Quoted, _) => State::Quoted,
                (_, b',' | b'\r' | b'\n') => State::FieldStart,
                _ => State::Field,
            };
            if byte == b'\n' && state != State::Quoted {
                ends.push(at + 1);
            }
        }
        ends
    }

    proptest! {
        #[test]
        fn records_end_where_a_reader_of_single_bytes_finds_it(
            text in "[a,\"\n\r]{0,60}",
            cuts in prop::collection::vec(0usize..60, 0..4),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let expected = ends(bytes);
            let mut scanner = Scanner::default();
            for pair in cuts.windows(2) {
                let found = scanner.last_record_end(&bytes[pair[0]..pair[1]]).map(|end| end + pair[0]);
                let last = expected.iter().copied().rfind(|end| (pair[0] + 1..=pair[1]).contains(end));
                prop_assert_eq!(found, last);
            }
            prop_assert_eq!(first_record(bytes), expected.first().copied());
            let (head, rest) = bytes.split_at(cuts[cuts.len() / 2]);
            if first_record(head).is_none() {
                let end = State::default().after(head).record_end(rest).map(|end| head.len() + end);
                prop_assert_eq!(end, expected.first().copied());
            }
        }
    }
}
