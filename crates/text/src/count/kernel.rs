//! The fast path: pieces of plain text, counted in lanes of bytes that the compiler turns into vectors.
//!
//! A word begins where a printable byte follows a space. So each byte is looked at together with the one before, 32 at
//! a time, and the lanes of the counters hold a byte each, which is why a piece has a largest size. What is neither
//! printable ASCII nor white space is rare in text, and only noticed here: who calls then counts that piece one
//! character after the other. [`pulp`] runs all of this compiled for AVX2 where the CPU has it.

/// Bytes processed at a time: the width of an AVX2 register.
const LANE_COUNT: usize = 32;

/// Bytes of a piece: a lane counts up to 255, and the first byte is only the predecessor of the second.
pub(super) const PIECE_MAX_BYTES: usize = 255 * LANE_COUNT + 1;

/// The largest byte of white space; the smaller ones are white space or control characters.
const SPACE_BYTE: i8 = b' '.cast_signed();

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
    debug_assert!(!piece.is_empty() && piece.len() <= PIECE_MAX_BYTES);
    let (mut lines, mut words) = ([0u8; LANE_COUNT], [0u8; LANE_COUNT]);
    // What is not plain is below a tab, between carriage return and space, or a delete; as signed numbers, bytes that
    // are no ASCII are below a tab too. Extremes are kept of each lane, since that is one instruction.
    let (mut lowest, mut highest, mut control) =
        ([i8::MAX; LANE_COUNT], [i8::MIN; LANE_COUNT], [u8::MAX; LANE_COUNT]);
    let ((now, rest), (before, _)) = (piece[1..].as_chunks::<LANE_COUNT>(), piece.as_chunks::<LANE_COUNT>());
    for (now, before) in now.iter().zip(before) {
        for lane in 0..LANE_COUNT {
            let (byte, signed, previous) = (now[lane], now[lane].cast_signed(), before[lane].cast_signed());
            lines[lane] += u8::from(byte == b'\n');
            words[lane] += u8::from(signed > SPACE_BYTE) & u8::from(previous <= SPACE_BYTE);
            lowest[lane] = lowest[lane].min(signed);
            highest[lane] = highest[lane].max(signed);
            control[lane] = control[lane].min(byte.wrapping_sub(b'\r' + 1));
        }
    }
    let none = |lanes: [bool; LANE_COUNT]| !lanes.iter().fold(false, |any, &lane| any | lane);
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
fn sum(lanes: &[u8; LANE_COUNT]) -> u64 {
    lanes.iter().map(|&lane| u64::from(lane)).sum()
}
