//! The live view of a regulated device: a frame that fits its window.

use super::style::{RED, Style, YELLOW};
use super::table::{header, row, without_spare};
use crate::result::{IorateOwner, IorateResult, owners};
use crate::section::Emphasis;
use crate::words::{NO_BREAK_SPACE, one_line};

const PLAIN: &str = "";
const BOLD: &str = "1";

/// The terminal's size in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Number of columns.
    pub columns: usize,
    /// Number of lines.
    pub rows: usize,
}

/// Renders the view, the most active owners first: at most as many lines as the window has, and none wider than it.
#[must_use]
pub fn top(result: &IorateResult, window: Window, color: bool) -> Vec<String> {
    let style = Style { width: window.columns, color };
    let paint = |code: &str, line: &str| style.paint(code, &cut(line, window.columns));
    let mut lines = vec![paint(BOLD, &format!("sakiyomi iorate top  {}", one_line(&result.mount)))];
    lines.extend(result.device.describe().iter().map(|line| cut(line, window.columns)));
    lines.extend(result.device.bypass.as_ref().map(|bypass| paint(RED, &bypass.describe())));
    lines.push(String::new());
    if result.owners.is_empty() {
        lines.push(cut("No process uses the device.", window.columns));
    } else {
        // Excluding the header.
        let room = window.rows.saturating_sub(lines.len() + 1);
        lines.extend(users(result, room, style, paint));
    }
    lines.truncate(window.rows);
    lines
}

/// Renders the header, and in `room` lines the device's owners, or the number of those without a line.
fn users(
    result: &IorateResult,
    room: usize,
    style: Style,
    paint: impl Fn(&str, &str) -> String,
) -> Vec<String> {
    let mut shown = by_activity(&result.owners);
    let all = shown.len();
    if all > room {
        shown.truncate(room.saturating_sub(1));
    }
    let table = without_spare(owners(&shown), style);
    let rows: Vec<Vec<String>> = std::iter::once(header(&table)).chain(table.rows.iter().map(row)).collect();
    let codes = table.rows.iter().map(|row| if row.emphasis == Emphasis::Off { YELLOW } else { PLAIN });
    let lines = std::iter::once(BOLD).chain(codes).zip(aligned(&rows));
    let mut painted: Vec<String> = lines.map(|(code, line)| paint(code, &line)).collect();
    if all > shown.len() {
        painted.push(paint(PLAIN, &format!("and {} more", all - shown.len())));
    }
    painted
}

/// Renders rows as lines of the same width: the first column left-aligned, the others right-aligned.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        cells.fold(String::new(), |line, (column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{line}  {cell:>width$}"),
        })
    };
    rows.iter().map(line).collect()
}

/// Sorts owners by I/O in descending order, then by unanswered requests.
fn by_activity(owners: &[IorateOwner]) -> Vec<IorateOwner> {
    let mut sorted = owners.to_vec();
    let activity = |owner: &IorateOwner| owner.ios_per_s.unwrap_or_default();
    sorted.sort_by(|a, b| {
        let busier = activity(b).total_cmp(&activity(a));
        busier.then(b.unanswered.cmp(&a.unanswered)).then(a.number.cmp(&b.number))
    });
    sorted
}

fn cut(line: &str, columns: usize) -> String {
    line.replace(NO_BREAK_SPACE, " ").chars().take(columns).collect()
}
