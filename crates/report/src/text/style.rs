//! Text layout: width, headings, paragraphs, bars and tables.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use crate::words::{NO_BREAK_SPACE, one_line};

/// Capabilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Number of columns.
    pub width: usize,
    /// Whether to write ANSI colors.
    pub color: bool,
}

/// Range of the text width in columns: fewer are unreadable, more are hard to follow.
const TEXT_COLUMNS: std::ops::RangeInclusive<usize> = 40..=120;

const BOLD: &str = "1";
pub(super) const RED: &str = "1;31";
pub(super) const YELLOW: &str = "33";
pub(super) const GREY: &str = "90";

impl Style {
    pub(super) fn width(self) -> usize {
        self.width.clamp(*TEXT_COLUMNS.start(), *TEXT_COLUMNS.end())
    }

    /// Adds an ANSI style to the text, if colors are enabled.
    pub(super) fn paint(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() && !code.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub(super) fn heading(self, text: &str) -> String {
        self.paint(BOLD, text)
    }

    /// Breaks `text` at spaces to fit the width; a no-break space becomes an ordinary one.
    #[must_use]
    pub fn wrap(self, text: &str) -> String {
        let mut lines = String::new();
        let mut column = 0;
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            let length = word.chars().count();
            if column > 0 && column + 1 + length > self.width() {
                lines.push('\n');
                column = 0;
            } else if column > 0 {
                lines.push(' ');
                column += 1;
            }
            lines.push_str(word);
            column += length;
        }
        lines.replace(NO_BREAK_SPACE, " ")
    }

    /// Returns a style with less width.
    pub(super) fn narrower(self, columns: usize) -> Style {
        Style { width: self.width().saturating_sub(columns), ..self }
    }

    /// Breaks `text` at spaces, with every line indented.
    pub(super) fn wrap_indented(self, text: &str, columns: usize) -> String {
        let indent = " ".repeat(columns);
        format!("{indent}{}", self.narrower(columns).wrap(text).replace('\n', &format!("\n{indent}")))
    }

    /// Draws a bar of `ratio` of `cells` columns, with a resolution of an eighth of a column.
    pub(super) fn bar(self, ratio: f64, cells: usize, code: &str) -> String {
        const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
        let ratio = if ratio.is_finite() { ratio.clamp(0.0, 1.0) } else { 0.0 };
        let eighths = (ratio * cells as f64 * 8.0).round() as usize;
        let mut bar = "█".repeat(eighths / 8);
        if !eighths.is_multiple_of(8) {
            bar.push(PARTS[eighths % 8]);
        }
        self.paint(code, &bar)
    }

    /// Returns whether such a table fits without breaking words or numbers.
    pub(super) fn fits(self, header: &[&str], rows: &[Vec<String>], text_columns: usize) -> bool {
        least_widths(header, rows, text_columns).iter().sum::<usize>() <= self.width()
    }

    /// Returns a style that is wide enough for a table without broken cells.
    pub(super) fn wide_enough(self, header: &[&str], rows: &[Vec<String>]) -> Style {
        Style { width: least_widths(header, rows, 0).iter().sum::<usize>().max(self.width), ..self }
    }

    /// Renders a table without borders whose first `text_columns` columns are text and the others numbers.
    pub(super) fn table(self, header: &[&str], rows: Vec<Vec<String>>, text_columns: usize) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(self.width()).unwrap_or(u16::MAX));
        table.set_header(header.iter().enumerate().map(|(column, text)| aligned(text, column, text_columns)));
        for row in &rows {
            table.add_row(row.iter().enumerate().map(|(column, text)| aligned(text, column, text_columns)));
        }
        if let Some(column) = table.column_mut(0) {
            column.set_padding((0, 1));
        }
        if self.fits(header, &rows, text_columns) {
            for (column, width) in table.column_iter_mut().zip(least_widths(header, &rows, text_columns)) {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width as u16)));
            }
        }
        table.lines().map(|line| line.replace(NO_BREAK_SPACE, " ").trim_end().to_owned() + "\n").collect()
    }
}

/// Returns the minimum widths of the columns of a table, including the space between them, so that texts are only
/// broken at spaces, and names of rows and numbers not at all.
fn least_widths(header: &[&str], rows: &[Vec<String>], text_columns: usize) -> Vec<usize> {
    let least = |column: usize, text: &str| match column {
        column if (1..text_columns).contains(&column) => {
            text.split(' ').map(|word| word.chars().count()).max().unwrap_or_default()
        }
        _ => text.chars().count(),
    };
    let widest = |(column, head): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| least(column, cell));
        cells.fold(least(column, head), usize::max) + if column == 0 { 1 } else { 2 }
    };
    header.iter().enumerate().map(widest).collect()
}

fn aligned(text: &str, column: usize, text_columns: usize) -> Cell {
    let alignment = if column < text_columns { CellAlignment::Left } else { CellAlignment::Right };
    Cell::new(one_line(text)).set_alignment(alignment)
}
