//! Files that documents refer to.

use std::fs;
use std::process::Command;

use sakiyomi_testing::skipped;

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

#[test]
fn scripts_can_be_started_as_documents_say() {
    let listed = Command::new("git").args(["ls-files", "--stage"]).current_dir(root()).output();
    let Some(listed) = listed.ok().filter(|listed| listed.status.success()) else {
        return skipped("scripts", "not a checkout of git, which knows the modes of files");
    };
    let listed = String::from_utf8(listed.stdout).unwrap();
    let scripts = listed.lines().filter_map(|line| {
        let (state, path) = line.split_once('\t')?;
        let is_script = fs::read(root().join(path)).is_ok_and(|content| content.starts_with(b"#!/"));
        is_script.then_some((state, path))
    });
    let findings: Vec<String> = scripts
        .filter(|(state, _)| !state.starts_with("100755 "))
        .map(|(_, path)| format!("{path}: git update-index --chmod=+x {path}"))
        .collect();
    assert_none("scripts are not executable", &findings);
}
