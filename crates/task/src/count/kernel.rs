//! The fast path: pieces of plain text, counted in lanes of bytes that the compiler turns into vectors.
//!
//! A word begins where a printable byte follows a space. So each byte is looked at together with the one before, 32 at
//! a time, and the lanes of the counters hold a byte each, which is why a piece has a largest size. What is neither
//! printable ASCII nor white space is rare in text, and only noticed here: who calls then counts that piece one
//! character after the other. [`pulp`] runs all of this compiled for AVX2 where the CPU has it.

/// Bytes looked at together.
const LANES: usize = 32;

/// Bytes of a piece at most: a lane counts up to 255.
pub(super) const PIECE: usize = 255 * LANES;

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
    let (mut lines, mut words, mut odd) = ([0u8; LANES], [0u8; LANES], [0u8; LANES]);
    let (mut now, mut before) = (piece[1..].chunks_exact(LANES), piece.chunks_exact(LANES));
    for (now, before) in (&mut now).zip(&mut before) {
        for lane in 0..LANES {
            let (byte, previous) = (now[lane], before[lane]);
            lines[lane] += u8::from(byte == b'\n');
            words[lane] += u8::from(is_word(byte) & !is_word(previous));
            odd[lane] |= u8::from(!(is_word(byte) | is_space(byte)));
        }
    }
    let mut tally = Tally { lines: sum(&lines), words: sum(&words), plain: sum(&odd) == 0 };
    let rest = piece.len() - now.remainder().len();
    // The first byte has none before it, and the last ones fill no vector.
    for at in std::iter::once(0).chain(rest..piece.len()) {
        let byte = piece[at];
        let follows_word = at > 0 && is_word(piece[at - 1]);
        tally.lines += u64::from(byte == b'\n');
        tally.words += u64::from(is_word(byte) && !follows_word);
        tally.plain &= is_word(byte) || is_space(byte);
    }
    tally
}

#[inline(always)]
fn sum(lanes: &[u8; LANES]) -> u64 {
    lanes.iter().map(|&lane| u64::from(lane)).sum()
}

/// Lines of any bytes.
#[inline(always)]
pub(super) fn lines(bytes: &[u8]) -> u64 {
    let mut total = 0;
    for piece in bytes.chunks(4 * PIECE) {
        let mut lanes = [0u8; 4 * LANES];
        let mut whole = piece.chunks_exact(4 * LANES);
        for chunk in &mut whole {
            for lane in 0..4 * LANES {
                lanes[lane] += u8::from(chunk[lane] == b'\n');
            }
        }
        total += lanes.iter().map(|&lane| u64::from(lane)).sum::<u64>();
        total += whole.remainder().iter().filter(|&&byte| byte == b'\n').count() as u64;
    }
    total
}
