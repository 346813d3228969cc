//! The fast path: pieces of plain text, counted in lanes of bytes that the compiler turns into vectors.
//!
//! A word begins where a printable byte follows a space. So each byte is looked at together with the one before, 32 at
//! a time, and the lanes of the counters hold a byte each, which is why a piece has a largest size. What is neither
//! printable ASCII nor white space is rare in text, and only noticed here: who calls then counts that piece one
//! character after the other. [`pulp`] runs all of this compiled for AVX2 where the CPU has it.

/// Bytes looked at together.
const LANES: usize = 32;

/// Bytes of a piece at most: a lane counts up to 255, and the first byte has none before it.
pub(super) const PIECE: usize = 255 * LANES + 1;

const SPACE: i8 = b' '.cast_signed();

/// What is in a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) lines: u64,
    /// Words that begin in it, as if a space were before it.
    pub(super) words: u64,
    /// Whether all bytes are printable ASCII or white space; the words are wrong otherwise.
    pub(super) plain: bool,
}

#[inline(always)]
pub(super) fn is_word(byte: u8) -> bool {
    byte.wrapping_sub(b'!') <= b'~' - b'!'
}

#[inline(always)]
pub(super) fn is_space(byte: u8) -> bool {
    (byte == b' ') | (byte.wrapping_sub(b'\t') <= b'\r' - b'\t')
}

/// Lines and words of a piece, which has at least one byte.
#[inline(always)]
pub(super) fn tally(piece: &[u8]) -> Tally {
    debug_assert!(!piece.is_empty() && piece.len() <= PIECE);
    let (mut lines, mut words) = ([0u8; LANES], [0u8; LANES]);
    // What is not plain is below a tab, between carriage return and space, or a delete; as signed numbers, bytes that
    // are no ASCII are below a tab too. Extremes are kept of each lane, since that is one instruction.
    let (mut lowest, mut highest, mut control) = ([i8::MAX; LANES], [i8::MIN; LANES], [u8::MAX; LANES]);
    let ((now, rest), (before, _)) = (piece[1..].as_chunks::<LANES>(), piece.as_chunks::<LANES>());
    for (now, before) in now.iter().zip(before) {
        for lane in 0..LANES {
            let (byte, signed, previous) = (now[lane], now[lane].cast_signed(), before[lane].cast_signed());
            lines[lane] += u8::from(byte == b'\n');
            words[lane] += u8::from(signed > SPACE) & u8::from(previous <= SPACE);
            lowest[lane] = lowest[lane].min(signed);
            highest[lane] = highest[lane].max(signed);
            control[lane] = control[lane].min(byte.wrapping_sub(b'\r' + 1));
        }
    }
    let none = |lanes: [bool; LANES]| !lanes.iter().fold(false, |any, &lane| any | lane);
    let plain = none(lowest.map(|lowest| lowest < b'\t'.cast_signed()))
        & none(highest.map(|highest| highest == i8::MAX))
        & none(control.map(|control| control < b' ' - (b'\r' + 1)));
    let mut tally = Tally { lines: sum(&lines), words: sum(&words), plain };
    tally.add(piece[0], b' ');
    // The last ones fill no vector.
    for pair in piece[piece.len() - rest.len() - 1..].windows(2) {
        tally.add(pair[1], pair[0]);
    }
    tally
}

impl Tally {
    #[inline(always)]
    fn add(&mut self, byte: u8, previous: u8) {
        self.lines += u64::from(byte == b'\n');
        self.words += u64::from(is_word(byte) & !is_word(previous));
        self.plain &= is_word(byte) | is_space(byte);
    }
}

#[inline(always)]
fn sum(lanes: &[u8; LANES]) -> u64 {
    lanes.iter().map(|&lane| u64::from(lane)).sum()
}
