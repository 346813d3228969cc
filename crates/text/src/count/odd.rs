//! Text that is not plain: accents, other scripts, control characters, invalid bytes.
//!
//! Odd characters are found 64 bytes at a time, as bits of a number, so that the characters between them cost nothing.
//! The kind of each is looked up, and in a copy of the piece it is replaced by plain bytes with the same effect on
//! words; the kernel then counts the copy as plain text. If columns are counted, every byte that is not exactly one
//! column wide is odd as well, including newlines.

use super::kernel::{is_space, is_word};
use super::{Core, Counter, Kind};

/// Maximum size of a piece.
pub(super) const PIECE_MAX_BYTES: usize = 15 * CHUNK_BYTES;

/// Bytes processed at a time, each represented by a bit of a word.
pub(super) const CHUNK_BYTES: usize = 64;

impl Counter {
    /// Counts a piece that begins and ends at character boundaries.
    // Not inlined, because the loops for plain text compile better as separate functions.
    #[inline(never)]
    pub(super) fn odd(&self, piece: &[u8], core: &mut Core) {
        self.arch.dispatch(Odd { counter: self, piece, core });
    }

    #[inline(always)]
    fn each_odd(&self, piece: &[u8], core: &mut Core) {
        let mut copy = [0; PIECE_MAX_BYTES];
        copy[..piece.len()].copy_from_slice(piece);
        let mut plain = Plain { bytes: &mut copy[..piece.len()], from: 0 };
        // The number of bytes that do not begin a character, and the start of those whose columns have not been
        // counted.
        let (mut surplus, mut seen) = (0, 0);
        let mut next = 0;
        for start in (0..piece.len()).step_by(CHUNK_BYTES) {
            let chunk = &piece[start..piece.len().min(start + CHUNK_BYTES)];
            let mut odd = if self.wanted.columns { bits(chunk, is_wide) } else { bits(chunk, is_no_plain) };
            odd &= from_bit(next.max(start) - start);
            while odd != 0 {
                let at = start + odd.trailing_zeros() as usize;
                let (kind, length) = self.first_of(&piece[at..]);
                next = at + length;
                odd &= from_bit(next - start);
                surplus += if kind.is_some() { length - 1 } else { 1 };
                let kind = kind.unwrap_or(Kind::Nothing);
                if self.wanted.columns {
                    core.columns.add((at - seen) as u64);
                    core.columns.put(kind);
                    seen = next;
                }
                plain.put(at, length, kind);
            }
        }
        if self.wanted.columns {
            core.columns.add((piece.len() - seen) as u64);
        }
        core.chars += (piece.len() - surplus) as u64;
        let lasting = &plain.bytes[plain.from..];
        if !lasting.is_empty() {
            let tally = self.tally(lasting);
            debug_assert!(tally.plain);
            core.then(&Core { chars: 0, ..Core::plain(lasting, tally) });
        }
    }
}

/// A piece to be counted by code compiled for the features of the CPU.
struct Odd<'a> {
    counter: &'a Counter,
    piece: &'a [u8],
    core: &'a mut Core,
}

impl pulp::WithSimd for Odd<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        self.counter.each_odd(self.piece, self.core);
    }
}

/// The copy in which all characters are plain.
struct Plain<'c> {
    bytes: &'c mut [u8],
    /// Before this index are only characters that do not affect words.
    from: usize,
}

impl Plain<'_> {
    /// Replaces a character of this kind, `length` bytes long.
    #[inline(always)]
    fn put(&mut self, at: usize, length: usize, kind: Kind) {
        let stand_in = match kind {
            Kind::Word(_) => b'x',
            Kind::Space(_) => b' ',
            // Left unchanged.
            Kind::Newline | Kind::Tab | Kind::Return => return,
            Kind::Nothing if at == self.from => {
                self.from = at + length;
                return;
            }
            Kind::Nothing if is_word(self.bytes[at - 1]) => b'x',
            Kind::Nothing => b' ',
        };
        match &mut self.bytes[at..at + length] {
            [one] => *one = stand_in,
            [one, two] => (*one, *two) = (stand_in, stand_in),
            [one, two, three] => (*one, *two, *three) = (stand_in, stand_in, stand_in),
            more => more.fill(stand_in),
        }
    }
}

#[inline(always)]
fn is_no_plain(byte: u8) -> bool {
    !(is_word(byte) | is_space(byte))
}

/// Returns whether the byte is not exactly one column wide.
#[inline(always)]
fn is_wide(byte: u8) -> bool {
    byte.wrapping_sub(b' ') > b'~' - b' '
}

/// Returns a word with all bits from this one on set, if there are any.
#[inline(always)]
fn from_bit(bit: usize) -> u64 {
    u64::MAX.checked_shl(bit as u32).unwrap_or(0)
}

/// Returns a bit for each byte that satisfies `is_so`; the lowest one is that of the first byte.
#[inline(always)]
pub(super) fn bits(chunk: &[u8], is_so: impl Fn(u8) -> bool) -> u64 {
    let mut flags = [0u8; CHUNK_BYTES];
    for (flag, &byte) in flags.iter_mut().zip(chunk) {
        *flag = u8::from(is_so(byte));
    }
    if flags.iter().fold(0, |any, flag| any | flag) == 0 {
        return 0;
    }
    // Eight flags of a byte each become one byte of eight bits: the product moves each flag to its place in the highest
    // byte.
    let (eights, _) = flags.as_chunks::<8>();
    let packed =
        eights.iter().map(|&flags| u64::from_le_bytes(flags).wrapping_mul(0x0102_0408_1020_4080) >> 56);
    packed.enumerate().fold(0, |bits, (eight, packed)| bits | packed << (8 * eight))
}
