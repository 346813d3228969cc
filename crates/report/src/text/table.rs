//! Tables on the terminal.

use super::style::{Style, YELLOW};
use crate::section::{Cell, Emphasis, Row, Table, Tone, Totals};
use crate::value::Value;
use crate::words::{NO_BREAK_SPACE, one_line};

/// Renders a table with its name, and as many of its columns as fit.
pub(super) fn draw(table: &Table, style: Style) -> String {
    let mut table = without_spare(table.clone(), style);
    let (name, shared) = &table.caption;
    let mut text = String::new();
    if !name.is_empty() {
        let shared = if shared.is_empty() { String::new() } else { format!(", {}", one_line(shared)) };
        text = format!("{}{shared}\n", style.heading(&one_line(name)));
    } else if let Some(named) = named_in_corner(&table).filter(|named| fits(named, style)) {
        table = named;
    } else if !table.heading.is_empty() {
        text = format!("{}\n", style.heading(table.heading));
    }
    let header = header(&table);
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows: Vec<Vec<String>> = table.rows.iter().map(row).collect();
    let wide = if table.is_data { style.wide_enough(&header, &rows) } else { style };
    let drawn = wide.table(&header, rows, text_columns(&table));
    // A row that was broken over several lines cannot be colored as one line.
    let is_whole = drawn.lines().count() == table.rows.len() + 1;
    let emphases = std::iter::once(Emphasis::None).chain(table.rows.iter().map(|row| row.emphasis));
    for (line, emphasis) in drawn.lines().zip(emphases.chain(std::iter::repeat(Emphasis::None))) {
        let code = if emphasis == Emphasis::Off && is_whole { YELLOW } else { "" };
        text.extend([style.paint(code, line), "\n".to_owned()]);
    }
    if !table.legend.is_empty() {
        text.extend(["\n".to_owned(), style.wrap(&one_line(&table.legend)), "\n".to_owned()]);
    }
    text
}

/// Returns the table with its name in the corner, if that is free and the first column names the rows.
fn named_in_corner(table: &Table) -> Option<Table> {
    let names_rows = |row: &Row| {
        row.cells.first().is_some_and(|cell| cell.value.text().chars().any(char::is_alphanumeric))
    };
    let first = table.columns.first()?;
    if !first.is_text || !first.name.is_empty() || !table.rows.iter().all(names_rows) {
        return None;
    }
    let mut named = table.clone();
    named.columns[0].name = table.heading.to_owned();
    for cell in named.rows.iter_mut().filter_map(|row| row.cells.first_mut()) {
        cell.value = format!("  {}", cell.value.text()).into();
    }
    Some(named)
}

fn fits(table: &Table, style: Style) -> bool {
    let header = header(table);
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows: Vec<Vec<String>> = table.rows.iter().map(row).collect();
    style.fits(&header, &rows, text_columns(table))
}

/// Returns the table without details, and without the columns of the highest rank until it fits.
pub(super) fn without_spare(mut table: Table, style: Style) -> Table {
    while let Some(index) = table.columns.iter().position(|column| column.is_detail) {
        remove(&mut table, index);
    }
    while !fits(&table, style) {
        let spare = table.columns.iter().enumerate().filter(|(_, column)| column.spare > 0);
        let Some((index, _)) = spare.max_by_key(|(_, column)| column.spare) else { break };
        remove(&mut table, index);
    }
    table
}

fn remove(table: &mut Table, column: usize) {
    table.columns.remove(column);
    for row in table.rows.iter_mut().filter(|row| column < row.cells.len()) {
        row.cells.remove(column);
    }
}

/// Returns the headers of the columns.
pub(super) fn header(table: &Table) -> Vec<String> {
    table.columns.iter().map(|column| one_line(&column.name)).collect()
}

/// Returns the cells of a row as texts.
pub(super) fn row(row: &Row) -> Vec<String> {
    let words = |cell: &Cell| match &cell.value {
        Value::Text(text) => one_line(text),
        // A figure must not be separated from its unit.
        figure => figure.text().replace(' ', &NO_BREAK_SPACE.to_string()),
    };
    row.cells.iter().map(words).collect()
}

fn text_columns(table: &Table) -> usize {
    table.columns.iter().take_while(|column| column.is_text).count()
}

/// Renders figures of several results in one table; changes are judged at the end of each line.
pub(super) fn side_by_side(totals: &Totals, style: Style) -> String {
    let header: Vec<&str> =
        std::iter::once("").chain(totals.columns.iter().copied()).chain(std::iter::once("")).collect();
    let mut rows = Vec::new();
    for group in &totals.groups {
        rows.push(vec![one_line(&group.name)]);
        for fact in &group.facts {
            let words = fact.values.iter().map(|cell| one_line(&cell.value.text()));
            let judgment =
                fact.values.last().and_then(|cell| judgment(cell.tone)).map(|(word, _)| word.to_owned());
            rows.push(
                std::iter::once(format!("  {}", one_line(&fact.label)))
                    .chain(words)
                    .chain(judgment)
                    .collect(),
            );
        }
    }
    let paint = |line: &str| {
        for (word, code) in [Tone::Better, Tone::Worse].into_iter().filter_map(judgment) {
            if let Some(rest) = line.strip_suffix(word) {
                return rest.to_owned() + &style.paint(code, word) + "\n";
            }
        }
        line.to_owned() + "\n"
    };
    style.table(&header, rows, 1).lines().map(paint).collect()
}

/// Returns the word for a change, and its color.
fn judgment(tone: Tone) -> Option<(&'static str, &'static str)> {
    match tone {
        Tone::Better => Some(("better", "32")),
        Tone::Worse => Some(("worse", "31")),
        _ => None,
    }
}
