//! Tables of documents.

/// The rows of the first table in `text` whose header's first cell is `first`, as cells without surrounding blanks.
///
/// # Panics
/// If there is no such table.
pub(crate) fn rows(text: &str, first: &str) -> Vec<Vec<String>> {
    let mut lines = text.lines();
    let found = lines.by_ref().any(|line| cells(line).is_some_and(|cells| cells[0] == first));
    assert!(found, "no table begins with `{first}`");
    // The line under the header.
    lines.next();
    lines.map_while(cells).collect()
}

fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(|cell| cell.trim().to_owned()).collect())
}

/// Returns the words of a cell in backticks.
pub(crate) fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn a_table_is_found_by_its_first_header() {
    let text = "a\n| x | y |\n|---|---|\n| `one`, `two` | 2 |\n\nend";
    let rows = rows(text, "x");
    assert_eq!(rows, [["`one`, `two`", "2"]]);
    assert!(quoted(&rows[0][0]).eq(["one", "two"]));
}
