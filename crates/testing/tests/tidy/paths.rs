//! Files that documents refer to.

use std::fs;

use crate::documents::documents;
use crate::table::quoted;
use crate::{assert_none, root};

#[test]
fn files_of_the_checkout_that_documents_name_exist() {
    let directories = ["bench/", "crates/", "docs/", "scenarios/", "traces/", "fuzz/", ".ci/"];
    let mut findings = Vec::new();
    for document in documents() {
        for line in fs::read_to_string(&document).unwrap().lines() {
            let named = quoted(line).flat_map(str::split_whitespace);
            let named = named.filter(|word| directories.iter().any(|directory| word.starts_with(directory)));
            // Excludes patterns and placeholders.
            let named = named.filter(|word| !word.contains(['*', '<', '$', '{', 'X', '…']));
            let missing = named.filter(|word| !root().join(word.trim_end_matches([',', '.', ';'])).exists());
            findings.extend(missing.map(|word| format!("{}: {word}", document.display())));
        }
    }
    assert_none("documents name files that do not exist", &findings);
}
