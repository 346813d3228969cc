//! The fast path: pieces of plain text, counted in lanes of bytes that the compiler vectorizes.
//!
//! A word begins where a printable byte follows a space, so each byte is compared with the previous one, 32 at a time.
//! A lane of the counters is one byte, which limits the size of a piece. Bytes that are neither printable ASCII nor
//! white space are rare in text, and only detected here: the caller then counts that piece character by character.
//! [`pulp`] runs this compiled for AVX2 if the CPU supports it.

/// Bytes processed at a time: the width of an AVX2 register.
const LANE_COUNT: usize = 32;

/// Maximum size of a piece: a lane counts up to 255, and the first byte is only the predecessor of the second.
pub(super) const PIECE_MAX_BYTES: usize = 255 * LANE_COUNT + 1;

/// The largest byte of white space; smaller ones are white space or control characters.
const SPACE_BYTE: i8 = b' '.cast_signed();

/// Counts of a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) lines: u64,
    /// Words that begin in it, if it were preceded by a space.
    pub(super) words: u64,
    /// Whether all bytes are printable ASCII or white space; otherwise the number of words is wrong.
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

/// Counts lines and words of a non-empty piece.
#[inline(always)]
pub(super) fn tally(piece: &[u8]) -> Tally {
    debug_assert!(!piece.is_empty() && piece.len() <= PIECE_MAX_BYTES);
    let (mut lines, mut words) = ([0u8; LANE_COUNT], [0u8; LANE_COUNT]);
    // Bytes that are not plain are below a tab, between carriage return and space, or a delete; as signed numbers,
    // bytes beyond ASCII are below a tab too. Each lane keeps its extremes, which takes one instruction.
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
    // The last bytes do not fill a vector.
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
