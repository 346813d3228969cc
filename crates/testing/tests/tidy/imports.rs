//! The paths that a file names.

/// Names separated by `::`.
pub(crate) type Path = Vec<String>;

/// Returns the imports of `code`: the local name, and the path.
pub(crate) fn imported(code: &str) -> Vec<(String, Path)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].trim_end_matches([' ', '\t']);
        let statement =
            before.is_empty() || before.ends_with(['\n', ';', '{', '}', ']', ')']) || before.ends_with("pub");
        if let (true, Some(length)) = (statement, code[at..].find(';')) {
            tree(&code[at + 4..at + length], &[], &mut found);
        }
    }
    found
}

/// Adds the imports of one use tree.
fn tree(text: &str, prefix: &[String], found: &mut Vec<(String, Path)>) {
    let text = text.trim();
    let (path, group) = match text.find('{') {
        Some(open) => (&text[..open], Some(text[open + 1..].trim_end().trim_end_matches('}'))),
        None => (text, None),
    };
    let (path, alias) =
        path.split_once(" as ").map_or((path, None), |(path, alias)| (path, Some(alias.trim())));
    let names = path.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    let mut path: Path = prefix.iter().cloned().chain(names).collect();
    if let Some(group) = group {
        parts(group).into_iter().for_each(|part| tree(part, &path, found));
        return;
    }
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    let Some(last) = path.last().cloned() else { return };
    if last == "*" {
        path.pop();
    }
    found.push((alias.map_or(last, str::to_owned), path));
}

/// Splits a group at its commas, except those in nested groups.
fn parts(group: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&group[from..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Returns the paths of two or more names that are written outside of imports.
pub(crate) fn written(code: &str) -> Vec<Path> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut found = Vec::new();
    for word in code.split(|letter: char| !is_word(letter) && letter != ':') {
        let names: Path = word.split("::").map(str::to_owned).collect();
        if names.len() > 1 && names.iter().all(|name| !name.is_empty() && !name.contains(':')) {
            found.push(names);
        }
    }
    found
}
