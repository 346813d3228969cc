//! Text with control characters: NULs, escape sequences, and in a locale of ASCII any bytes.
//!
//! Control characters neither begin nor end a word, so that a word continues after any number of them. 64 bytes at a
//! time are classified as bits of a number; adding the first bit of a run of control characters after a word to the
//! run carries the word through it.

use super::kernel::{is_space, is_word};
use super::odd::{CHUNK_BYTES, bits};
use super::{Core, Counter};

impl Counter {
    /// Counts a piece of NULs only; returns whether it is one.
    pub(super) fn nuls(&self, piece: &[u8], core: &mut Core) -> bool {
        let are_nuls = piece.first() == Some(&0) && piece[1..] == piece[..piece.len() - 1];
        if are_nuls {
            core.chars += piece.len() as u64;
        }
        are_nuls
    }

    /// Counts lines and words of a piece if each of its bytes is a character of ASCII, or is not printable; returns
    /// whether it is.
    pub(super) fn control(&self, piece: &[u8], core: &mut Core) -> bool {
        let is_known = if self.utf8 { piece.is_ascii() } else { self.is_ascii };
        if is_known {
            self.arch.dispatch(Control { piece, core });
        }
        is_known
    }
}

/// A piece to be counted by code compiled for the features of the CPU.
struct Control<'a> {
    piece: &'a [u8],
    core: &'a mut Core,
}

impl pulp::WithSimd for Control<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let mut counted = Core { chars: self.piece.len() as u64, ..Core::default() };
        for chunk in self.piece.chunks(CHUNK_BYTES) {
            counted.add_chunk(chunk);
        }
        self.core.then(&counted);
    }
}

impl Core {
    #[inline(always)]
    fn add_chunk(&mut self, chunk: &[u8]) {
        let (words, spaces) = (bits(chunk, is_word), bits(chunk, is_space));
        let known = words | spaces;
        if known == 0 {
            return;
        }
        let open = u64::from(self.last == Some(true));
        let control = !known;
        let after_word = (words << 1 | open) & control;
        let in_word = words | control & !control.wrapping_add(after_word);
        self.words += u64::from((words & !(in_word << 1 | open)).count_ones());
        if spaces != 0 {
            self.lines += u64::from(bits(chunk, |byte| byte == b'\n').count_ones());
        }
        self.first = self.first.or(Some(words >> known.trailing_zeros() & 1 == 1));
        self.last = Some(words << known.leading_zeros() >> (CHUNK_BYTES - 1) == 1);
    }
}
