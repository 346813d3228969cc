//! One fixed colour for each class and activity, in every chart.
//!
//! The colours are Okabe and Ito's, which people with any kind of colour vision can tell apart. Hits are cool, misses
//! warm. Seeks have the full colour of their operation and data transfers a tint of it.

use plotters::style::RGBColor;
use sakiyomi_model::ReadClass;

const ORANGE: RGBColor = RGBColor(0xE6, 0x9F, 0x00);
const SKY: RGBColor = RGBColor(0x56, 0xB4, 0xE9);
const GREEN: RGBColor = RGBColor(0x00, 0x9E, 0x73);
const YELLOW: RGBColor = RGBColor(0xF0, 0xE4, 0x42);
const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xB2);
const VERMILLION: RGBColor = RGBColor(0xD5, 0x5E, 0x00);
const PURPLE: RGBColor = RGBColor(0xCC, 0x79, 0xA7);

/// Text and axes. The page's style sheet knows this, `FAINT`, `GRID`, `IDLE` and `STALL` by their codes and changes them in
/// the dark.
pub(super) const INK: RGBColor = RGBColor(0x24, 0x29, 0x2F);
/// Text that is less important.
pub(super) const FAINT: RGBColor = RGBColor(0x6E, 0x77, 0x81);
/// Lines behind the data.
pub(super) const GRID: RGBColor = RGBColor(0xE3, 0xE6, 0xEA);

pub(super) const WRITE: RGBColor = GREEN;
pub(super) const READ_SEEK: RGBColor = VERMILLION;
pub(super) const READ_NEAR_MISS_SEEK: RGBColor = ORANGE;
pub(super) const WRITE_SEEK: RGBColor = GREEN;
pub(super) const READ_DATA: RGBColor = RGBColor(0xF0, 0xB8, 0x8F);
pub(super) const WRITE_DATA: RGBColor = RGBColor(0x8F, 0xD3, 0xBE);
pub(super) const IDLE: RGBColor = RGBColor(0xDD, 0xDF, 0xE2);

pub(super) const MEAN: RGBColor = BLUE;
pub(super) const P99: RGBColor = ORANGE;
pub(super) const LONGEST: RGBColor = VERMILLION;
pub(super) const BACKLOG: RGBColor = PURPLE;

/// Where a command's time went: queue, overhead, seek, rotation, transfer.
pub(super) const PARTS: [RGBColor; 5] = [RGBColor(0xB4, 0xBA, 0xC1), YELLOW, VERMILLION, ORANGE, SKY];

/// The undominated points of a sweep.
pub(super) const FRONT: RGBColor = BLUE;
/// The others.
pub(super) const BEATEN: RGBColor = RGBColor(0xA0, 0xA7, 0xAF);

/// What a real drive took, wide below the others.
pub(super) const MEASURED: RGBColor = SKY;
/// A simulation that takes its own times.
pub(super) const FREE: RGBColor = ORANGE;
/// A simulation that stays at the measured times.
pub(super) const ANCHORED: RGBColor = BLUE;

/// Methods of I/O that a probe measures. The kin have kindred colours; black is the eighth of Okabe and Ito's.
pub(super) const METHODS: [(&str, RGBColor); 7] = [
    ("read", BLUE),
    ("pread", SKY),
    ("aio", ORANGE),
    ("uring", VERMILLION),
    ("uring-sqpoll", PURPLE),
    ("mmap", GREEN),
    ("populate", INK),
];

/// Who uses the CPU: user, system, kernel threads.
pub(super) const CPU: [RGBColor; 3] = [SKY, BLUE, ORANGE];
/// Where a core counts as busy.
pub(super) const BUSY: RGBColor = VERMILLION;

/// A program and the prefetcher ahead of it.
pub(super) const MAIN: RGBColor = BLUE;
pub(super) const PREFETCH: RGBColor = ORANGE;
/// Where the program waits.
pub(super) const STALL: RGBColor = RGBColor(0xF7, 0xDA, 0xC4);

/// The colour of a method of I/O.
pub(super) fn method(name: &str) -> RGBColor {
    METHODS.iter().find(|method| method.0 == name).map_or(BEATEN, |method| method.1)
}

/// The colour of a read's class.
pub(super) fn read(class: ReadClass) -> RGBColor {
    match class {
        ReadClass::FullHit => BLUE,
        ReadClass::ActiveHit => SKY,
        ReadClass::NearMiss => ORANGE,
        ReadClass::PurgedMiss => PURPLE,
        ReadClass::PureMiss => VERMILLION,
    }
}

/// The colour of a line among many, which also have their names beside them.
pub(super) fn series(index: usize) -> RGBColor {
    [BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, INK, FAINT][index % 8]
}

/// The colour of a run where two share one picture.
pub(super) fn side(index: usize) -> RGBColor {
    if index == 0 { BLUE } else { VERMILLION }
}

/// `#0072B2`
pub(super) fn code(colour: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_sheet_knows_the_colours_that_change_in_the_dark() {
        let style = include_str!("../html/style.css");
        for colour in [INK, FAINT, GRID, IDLE, STALL] {
            assert!(style.contains(&format!("=\"{}\"]", code(colour))));
        }
    }
}
