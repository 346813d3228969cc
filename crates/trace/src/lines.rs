//! Lines as byte slices of one bounded buffer, without allocation per line.

use std::io::{self, Read};

const BUFFER_BYTES: usize = 256 << 10;

/// Maximum line length; a file with a longer line is not a trace.
pub(crate) const LINE_MAX_BYTES: usize = 64 << 10;

/// Splits a byte stream into lines, without their terminators (`\n` or `\r\n`), and counts them.
pub(crate) struct Lines<R> {
    reader: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    at_eof: bool,
    /// Number of the last line returned, from 1.
    line: u64,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(reader: R) -> Lines<R> {
        Lines {
            reader,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            at_eof: false,
            line: 0,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.line
    }

    /// Returns the next line, and whether a newline ends it; `None` at the end. An incomplete line before an error is not
    /// returned.
    pub(crate) fn next(&mut self) -> io::Result<Option<(&[u8], bool)>> {
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(at) = find_newline(&unread[searched..]) {
                let length = searched + at;
                return Ok(Some((self.take(length, length + 1), true)));
            }
            searched = unread.len();
            if searched > LINE_MAX_BYTES {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!(
                        "line {} is longer than {LINE_MAX_BYTES} bytes: this is not a text trace",
                        self.line + 1
                    ),
                ));
            }
            if self.at_eof {
                return Ok(if searched == 0 { None } else { Some((self.take(searched, searched), false)) });
            }
            self.fill()?;
        }
    }

    /// Fills the buffer as far as possible, and returns its unread bytes and whether the input ends there. An error
    /// only ends the sample; it is returned by the next read.
    pub(crate) fn peek(&mut self) -> (&[u8], bool) {
        while !self.at_eof && self.end - self.start < LINE_MAX_BYTES {
            if self.fill().is_err() {
                break;
            }
        }
        (&self.buffer[self.start..self.end], self.at_eof)
    }

    fn take(&mut self, length: usize, advance: usize) -> &[u8] {
        let line = &self.buffer[self.start..self.start + length];
        self.start += advance;
        self.line += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.line == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line }
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.at_eof = count == 0;
                    self.end += count;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn find_newline(bytes: &[u8]) -> Option<usize> {
    // Chunks of sixteen bytes first, which the compiler vectorizes.
    let mut at = 0;
    for chunk in bytes.chunks_exact(16) {
        if chunk.iter().fold(false, |found, &byte| found | (byte == b'\n')) {
            break;
        }
        at += 16;
    }
    bytes[at..].iter().position(|&byte| byte == b'\n').map(|found| at + found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a few bytes at a time, like a pipe.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn line_ends_and_byte_order_marks_are_stripped() {
        let mut lines = Lines::new(&b"\xef\xbb\xbfone\r\n\ntwo"[..]);
        assert_eq!(lines.next().unwrap(), Some((&b"one"[..], true)));
        assert_eq!(lines.next().unwrap(), Some((&b""[..], true)));
        assert_eq!(lines.next().unwrap(), Some((&b"two"[..], false)));
        assert_eq!(lines.number(), 3);
        assert_eq!(lines.next().unwrap(), None);
        assert_eq!(lines.next().unwrap(), None);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut lines = Lines::new(io::repeat(b'x'));
        let error = lines.next().unwrap_err();
        assert_eq!(error.to_string(), "line 1 is longer than 65536 bytes: this is not a text trace");
    }

    proptest! {
        #[test]
        fn lines_are_those_of_split(text in "[ab\n]{0,200}", step in 1usize..20) {
            let mut lines = Lines::new(Trickle(text.as_bytes(), step));
            let mut found = Vec::new();
            while let Some((line, _)) = lines.next().unwrap() {
                found.push(String::from_utf8(line.to_vec()).unwrap());
            }
            prop_assert_eq!(found, text.lines().map(str::to_owned).collect::<Vec<_>>());
        }
    }
}
