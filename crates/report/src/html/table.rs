//! Tables of results: the script lets their columns be sorted, folds the long ones, and gives each as CSV.
//!
//! A page without a script, and paper, show all rows in the order of the result.

use maud::{Markup, html};

use crate::number;
use crate::points::Points;

/// Minimum number of rows of a sortable table.
const SORTED_FROM: usize = 4;

/// Length in characters above which a text may break.
const LONG: usize = 16;

/// One cell.
#[derive(Default)]
pub(super) struct Cell {
    text: String,
    class: &'static str,
    title: String,
}

impl Cell {
    /// With a class of the style sheet.
    pub(super) fn class(self, class: &'static str) -> Cell {
        Cell { class, ..self }
    }

    /// With words that a pointer shows.
    pub(super) fn title(self, title: &str) -> Cell {
        Cell { title: title.to_owned(), ..self }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, ..Cell::default() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        text.to_owned().into()
    }
}

/// One row.
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    /// Whether it is worth more than the others.
    pub(super) is_marked: bool,
}

/// A table of results.
pub(super) struct Table<'a> {
    /// File name of its CSV, without the extension.
    pub(super) name: &'a str,
    pub(super) caption: Markup,
    pub(super) header: Vec<String>,
    /// Number of leading columns that hold text.
    pub(super) text_columns: usize,
    pub(super) rows: Vec<Row>,
}

impl<'a> Table<'a> {
    /// A table of cells that are text alone.
    pub(super) fn plain(
        name: &'a str,
        header: impl IntoIterator<Item = impl Into<String>>,
        text_columns: usize,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Table<'a> {
        let cells = |cells: Vec<String>| cells.into_iter().map(Cell::from).collect();
        Table {
            name,
            caption: html! {},
            header: header.into_iter().map(Into::into).collect(),
            text_columns,
            rows: rows.into_iter().map(|row| Row { cells: cells(row), is_marked: false }).collect(),
        }
    }

    /// The points of an experiment.
    pub(super) fn of_points(name: &'a str, points: Points) -> Table<'a> {
        Table::plain(name, points.header, points.text_columns, points.rows)
    }

    /// The table as markup.
    pub(super) fn markup(&self) -> Markup {
        let is_text = |column: usize| column < self.text_columns;
        let is_sorted = self.rows.len() >= SORTED_FROM;
        html! {
            div.wide {
                table.points data-name=(self.name) data-sorted[is_sorted] {
                    @if !self.caption.0.is_empty() { caption { (self.caption) } }
                    thead {
                        tr {
                            @for (column, name) in self.header.iter().enumerate() {
                                @if name.is_empty() { td {} }
                                @else { th class=[is_text(column).then_some("text")] scope="col" { (breakable(name)) } }
                            }
                        }
                    }
                    tbody {
                        @for row in &self.rows {
                            tr class=[row.is_marked.then_some("undominated")] {
                                @for (column, cell) in row.cells.iter().enumerate() {
                                    (cell.markup(column, self.text_columns, is_sorted))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A key may break after its dots if the column is narrow.
fn breakable(name: &str) -> Markup {
    html! {
        @for (index, part) in name.split_inclusive('.').enumerate() { @if index > 0 { wbr; } (part) }
    }
}

impl Cell {
    fn markup(&self, column: usize, text_columns: usize, is_sorted: bool) -> Markup {
        let is_text = column < text_columns;
        // A cell with only a mark does not name its row.
        let is_heading = column == 0 && is_text && self.text.chars().any(char::is_alphanumeric);
        let is_long = self.text.chars().count() > LONG;
        let classes = [is_text.then_some("text"), is_long.then_some("long"), Some(self.class)];
        let classes: Vec<&str> = classes.into_iter().flatten().filter(|class| !class.is_empty()).collect();
        let class = (!classes.is_empty()).then(|| classes.join(" "));
        let key = is_sorted.then(|| number::sort_key(&self.text)).flatten();
        let title = (!self.title.is_empty()).then_some(&self.title);
        html! {
            @if is_heading { th class=[class] title=[title] data-v=[key] scope="row" { (self.text) } }
            @else { td class=[class] title=[title] data-v=[key] { (self.text) } }
        }
    }
}
