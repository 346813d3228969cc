//! One fixed color for each class and activity, in every chart.
//!
//! The colors are those of Okabe and Ito, which are distinguishable with any kind of color vision. Hits are cool,
//! misses warm. Seeks have the full color of their operation and data transfers a tint of it.

use std::fmt;

use sakiyomi_model::ReadClass;

/// Red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Color(u8, u8, u8);

/// Prints `#RRGGBB`.
impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02X}{:02X}{:02X}", self.0, self.1, self.2)
    }
}

const ORANGE: Color = Color(0xE6, 0x9F, 0x00);
const SKY: Color = Color(0x56, 0xB4, 0xE9);
const GREEN: Color = Color(0x00, 0x9E, 0x73);
const YELLOW: Color = Color(0xF0, 0xE4, 0x42);
const BLUE: Color = Color(0x00, 0x72, 0xB2);
const VERMILLION: Color = Color(0xD5, 0x5E, 0x00);
const PURPLE: Color = Color(0xCC, 0x79, 0xA7);

/// Text and axes.
///
/// Six colors stand in `html/style.css` as well, which replaces them by their codes in dark mode: this, `FAINT`, `GRID`,
/// `IDLE`, `HIGHEST` and `STALL`.
pub(crate) const INK: Color = Color(0x24, 0x29, 0x2F);
/// Less important text.
pub(crate) const FAINT: Color = Color(0x6E, 0x77, 0x81);
/// Lines behind the data.
pub(crate) const GRID: Color = Color(0xE3, 0xE6, 0xEA);

pub(crate) const WRITE: Color = GREEN;
pub(crate) const READ_SEEK: Color = VERMILLION;
pub(crate) const READ_NEAR_MISS_SEEK: Color = ORANGE;
pub(crate) const WRITE_SEEK: Color = GREEN;
pub(crate) const READ_DATA: Color = Color(0xF0, 0xB8, 0x8F);
/// Color of reads if it is the only color, and must be visible.
pub(crate) const READ: Color = SKY;
pub(crate) const WRITE_DATA: Color = Color(0x8F, 0xD3, 0xBE);
pub(crate) const IDLE: Color = Color(0xDD, 0xDF, 0xE2);
/// Color of the maximum of the values joined in a column.
pub(crate) const HIGHEST: Color = Color(0xC8, 0xCD, 0xD3);

pub(crate) const MEAN: Color = BLUE;
pub(crate) const P99: Color = ORANGE;
pub(crate) const LONGEST: Color = VERMILLION;
pub(crate) const BACKLOG: Color = PURPLE;

/// Parts of a command's time: queue, overhead, seek, rotation, transfer.
pub(crate) const PARTS: [Color; 5] = [Color(0xB4, 0xBA, 0xC1), YELLOW, VERMILLION, ORANGE, SKY];

/// The undominated points of a sweep.
pub(crate) const FRONT: Color = BLUE;
/// The dominated points of a sweep.
pub(crate) const BEATEN: Color = Color(0x8A, 0x92, 0x9B);

/// Times of a real drive, drawn as a wide line below the others.
pub(crate) const MEASURED: Color = BEATEN;
/// The free replay of a simulation.
pub(crate) const FREE: Color = ORANGE;
/// The replay anchored at the measured times.
pub(crate) const ANCHORED: Color = BLUE;

/// I/O engines that a probe measures. Related engines have similar colors; black is the eighth of Okabe and Ito's.
pub(crate) const METHODS: [(&str, Color); 7] = [
    ("read", BLUE),
    ("pread", SKY),
    ("aio", ORANGE),
    ("uring", VERMILLION),
    ("uring-sqpoll", PURPLE),
    ("mmap", GREEN),
    ("populate", INK),
];

/// CPU time: user, system, kernel threads.
pub(crate) const CPU: [Color; 3] = [SKY, BLUE, ORANGE];
/// The limit from which a core counts as busy.
pub(crate) const BUSY: Color = VERMILLION;

/// State of a program: computing.
pub(crate) const COMPUTES: Color = BLUE;
pub(crate) const SHARES: Color = SKY;

/// A program, as opposed to the prefetcher ahead of it.
pub(crate) const MAIN: Color = BLUE;
pub(crate) const PREFETCH: Color = ORANGE;
/// Periods in which the program waits.
pub(crate) const STALL: Color = Color(0xF7, 0xDA, 0xC4);

/// Returns the color of an I/O engine.
pub(crate) fn method(name: &str) -> Color {
    METHODS.iter().find(|method| method.0 == name).map_or(BEATEN, |method| method.1)
}

/// Returns the color of a read's class.
pub(crate) fn read(class: ReadClass) -> Color {
    match class {
        ReadClass::FullHit => BLUE,
        ReadClass::ActiveHit => SKY,
        ReadClass::NearMiss => ORANGE,
        ReadClass::PurgedMiss => PURPLE,
        ReadClass::PureMiss => VERMILLION,
    }
}

/// Returns the color of one of many lines, which are also labeled with their names.
pub(crate) fn series(index: usize) -> Color {
    [BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, INK, FAINT][index % 8]
}

/// Returns the color of a run if two share a picture.
pub(crate) fn side(index: usize) -> Color {
    if index == 0 { BLUE } else { VERMILLION }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_sheet_knows_the_colors_that_change_in_the_dark() {
        let style = include_str!("../html/style.css");
        for color in [INK, FAINT, GRID, IDLE, HIGHEST, STALL] {
            assert!(style.contains(&format!("=\"{}\"]", color)));
        }
    }
}
