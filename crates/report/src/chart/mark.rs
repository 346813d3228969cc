//! Marks of series: shapes that distinguish the points of lines without their colors.

/// Shape of the points of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Disc,
    Square,
    Triangle,
    Diamond,
}

impl Mark {
    /// Returns the mark of the `index`-th series.
    pub(crate) fn of_series(index: usize) -> Mark {
        [Mark::Disc, Mark::Square, Mark::Triangle, Mark::Diamond][index % 4]
    }

    /// Returns the path of the outline around a center. All marks have about the area of a disc of this radius.
    pub(crate) fn path(self, (x, y): (i64, i64), radius: i64) -> String {
        match self {
            Mark::Disc => {
                let side = 2 * radius;
                format!(
                    "M{} {y}a{radius} {radius} 0 1 0 {side} 0a{radius} {radius} 0 1 0 -{side} 0z",
                    x - radius
                )
            }
            Mark::Square => {
                let half = radius * 9 / 10;
                let side = 2 * half;
                format!("M{} {}h{side}v{side}h-{side}z", x - half, y - half)
            }
            Mark::Triangle => {
                let half = radius * 13 / 10;
                format!("M{x} {}l{half} {}h-{}z", y - half, 2 * half, 2 * half)
            }
            Mark::Diamond => {
                let half = radius * 13 / 10;
                format!("M{x} {}l{half} {half}l-{half} {half}l-{half} -{half}z", y - half)
            }
        }
    }
}
