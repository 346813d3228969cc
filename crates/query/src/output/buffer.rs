//! Byte buffer that stays initialized, so that reuse costs neither page faults nor zeroing.

use sakiyomi_expression::format::Append;

/// An append-only byte buffer. Memory beyond its end keeps old bytes, and is reused without zeroing.
#[derive(Debug, Default)]
pub(crate) struct Buf {
    bytes: Vec<u8>,
    len: usize,
}

impl Buf {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns the bytes of touched memory; the rest of the capacity is only address space.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Drops the bytes from `len` on.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Reserves space for `more` bytes with at most one allocation.
    pub(crate) fn reserve(&mut self, more: usize) {
        let wanted = self.len + more;
        self.bytes.reserve(wanted.saturating_sub(self.bytes.len()));
    }

    /// Appends `count` bytes of arbitrary value, for the caller to overwrite.
    pub(crate) fn space(&mut self, count: usize) -> &mut [u8] {
        let (start, end) = (self.len, self.len + count);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.len = end;
        &mut self.bytes[start..end]
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.space(bytes.len()).copy_from_slice(bytes);
    }

    /// Replaces bytes that were appended before.
    pub(crate) fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[..self.len][at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn push(&mut self, byte: u8) {
        self.space(1)[0] = byte;
    }

    /// Appends an unsigned LEB128 number, as in Thrift and in Parquet's run headers.
    pub(crate) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }
}

impl Append for Buf {
    #[inline]
    fn space(&mut self, count: usize) -> &mut [u8] {
        Buf::space(self, count)
    }
}

impl std::io::Write for Buf {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
