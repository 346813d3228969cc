//! The reference of drive and scenario files names every key, and the changelog every schema.

use std::fs;

use crate::table::{quoted, rows};
use crate::{assert_none, root};

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Returns the words in backticks of a page.
fn named(page: &str) -> Vec<String> {
    page.lines().flat_map(quoted).map(str::to_owned).collect()
}

/// Returns the public fields of the structures in a file of Rust, without its tests.
fn fields(text: &str) -> Vec<&str> {
    let text = text.split("#[cfg(test)]").next().unwrap_or(text);
    let names =
        text.lines().filter_map(|line| line.strip_prefix("    pub ")?.split_once(": ").map(|(name, _)| name));
    names
        .filter(|name| {
            name.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'0'..=b'9'))
        })
        .collect()
}

#[test]
fn the_reference_of_drives_names_every_key() {
    let page = read("docs/reference/drive.md");
    let named = named(&page);
    let explained = read("crates/drive/src/spec/explain.rs");
    let keys = explained
        .lines()
        .filter_map(|line| line.strip_prefix("    \"")?.split_once("\", \"").map(|(key, _)| key));
    let keys: Vec<&str> = keys.collect();
    assert!(keys.len() > 80, "{} keys", keys.len());
    // Keys of a table of overheads stand once for all of them.
    let is_named = |key: &str| {
        let name = key.rsplit_once('.').map_or(key, |(_, name)| name);
        let is_of_a_table = matches!(name, "after_read" | "after_write" | "in_sequence");
        named.iter().any(|word| word == if is_of_a_table { name } else { key })
    };
    let missing: Vec<String> =
        keys.iter().filter(|key| !is_named(key)).map(|key| (*key).to_owned()).collect();
    assert_none("docs/reference/drive.md does not name these keys", &missing);
}

#[test]
fn the_reference_of_scenarios_names_every_key() {
    let named = named(&read("docs/reference/scenario.md"));
    let mut missing = Vec::new();
    let mut count = 0;
    for file in ["spec.rs", "spec/job.rs", "spec/machine.rs", "spec/regulate.rs"] {
        for key in fields(&read(&format!("crates/scenario/src/{file}"))) {
            count += 1;
            // A table is named by its keys.
            let is_named = named.iter().any(|word| word.split('.').any(|part| part == key));
            missing.extend((!is_named).then(|| format!("{file}: {key}")));
        }
    }
    assert!(count > 80, "{count} keys");
    assert_none("docs/reference/scenario.md does not name these keys", &missing);
}

#[test]
fn fields_are_found() {
    assert_eq!(
        fields("pub struct A {\n    pub size_b: u32,\n    c: u32,\n}\n#[cfg(test)]\n    pub d: u32,"),
        ["size_b"]
    );
}

#[test]
fn the_changelog_has_the_version_of_every_schema() {
    let in_reference: Vec<String> = rows(&read("docs/reference/json.md"), "schema")
        .iter()
        .flat_map(|row| quoted(&row[0]).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let of_changelog = rows(&read("CHANGELOG.md"), "schema");
    let in_changelog: Vec<String> =
        of_changelog.iter().map(|row| format!("{}/{}", row[0].trim_matches('`'), row[1])).collect();
    assert!(in_reference.len() > 30, "{in_reference:?}");
    assert_eq!(in_reference, in_changelog, "left: docs/reference/json.md, right: CHANGELOG.md");
}
