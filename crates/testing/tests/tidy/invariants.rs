//! The tests that ARCHITECTURE.md names beside its invariants.

use std::fs;
use std::path::Path;

use crate::source::crates;
use crate::table::{quoted, rows};
use crate::{assert_none, root};

#[test]
fn every_invariant_has_tests_and_they_exist() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut code = String::new();
    for krate in crates() {
        let directory = root().join("crates").join(krate);
        ["src", "tests"].iter().for_each(|part| append(&directory.join(part), &mut code));
    }
    let mut findings = Vec::new();
    for row in rows(&text, "invariant") {
        let tests: Vec<&str> = quoted(&row[1]).collect();
        if tests.is_empty() {
            findings.push(format!("no test: {}", row[0]));
        }
        let missing = tests.iter().filter(|test| !code.contains(&format!("fn {test}(")));
        findings.extend(missing.map(|test| format!("there is no test {test}")));
    }
    assert_none("invariants in ARCHITECTURE.md", &findings);
}

fn append(directory: &Path, code: &mut String) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            append(&path, code);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            code.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}
