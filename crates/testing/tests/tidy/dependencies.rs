//! Dependencies between crates: as ARCHITECTURE.md lists them, and not too deep.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::documents::files_with_extension_under;
use crate::source::crates;
use crate::table::{quoted, rows};
use crate::{assert_none, root};

/// Maximum crates on the longest path from the command to a crate without dependencies.
const LEVELS_MAX: usize = 6;

/// Returns for each crate the project's crates that its library depends on.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let of = |krate: String| {
        let manifest = fs::read_to_string(root().join("crates").join(&krate).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let used = manifest.get("dependencies").and_then(toml::Value::as_table).into_iter().flatten();
        let used = used.filter_map(|(name, _)| name.strip_prefix("sakiyomi-")).map(str::to_owned).collect();
        (krate, used)
    };
    crates().into_iter().map(of).collect()
}

#[test]
fn a_crate_uses_only_those_that_the_architecture_lists() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut may_use: BTreeMap<String, Option<BTreeSet<String>>> = BTreeMap::new();
    for row in rows(&text, "crate") {
        let used = (row[2] != "all").then(|| quoted(&row[2]).map(str::to_owned).collect());
        may_use.extend(quoted(&row[0]).map(|krate| (krate.to_owned(), used.clone())));
    }
    let mut findings = Vec::new();
    for (krate, used) in dependencies() {
        let Some(allowed) = may_use.get(&krate) else {
            findings.push(format!("crate {krate} is not in the table of crates"));
            continue;
        };
        let Some(allowed) = allowed else { continue };
        findings.extend(used.difference(allowed).map(|other| format!("{krate} uses {other}")));
        findings.extend(
            allowed.difference(&used).map(|other| format!("{krate} does not use {other}, which is listed")),
        );
    }
    assert_none("the table of crates in ARCHITECTURE.md differs from the manifests", &findings);
}

#[test]
fn every_dependency_is_named_in_the_code() {
    let mut findings = Vec::new();
    for krate in crates() {
        let directory = root().join("crates").join(&krate);
        let manifest: toml::Table =
            fs::read_to_string(directory.join("Cargo.toml")).unwrap().parse().unwrap();
        let code: String = files_with_extension_under(&directory, "rs")
            .iter()
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        let words: BTreeSet<&str> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let named = manifest.get(kind).and_then(toml::Value::as_table).into_iter().flatten();
            let unused = named.filter(|(name, _)| !words.contains(name.replace('-', "_").as_str()));
            findings.extend(unused.map(|(name, _)| format!("{krate}: {kind}: {name}")));
        }
    }
    assert_none("dependencies that nothing uses", &findings);
}

#[test]
fn crates_are_few_levels_deep() {
    fn levels(krate: &str, of: &BTreeMap<String, BTreeSet<String>>) -> usize {
        1 + of[krate].iter().map(|used| levels(used, of)).max().unwrap_or(0)
    }
    let of = dependencies();
    let deep: Vec<String> = of
        .keys()
        .map(|krate| (krate, levels(krate, &of)))
        .filter(|&(_, levels)| levels > LEVELS_MAX)
        .map(|(krate, levels)| format!("{krate}: {levels}"))
        .collect();
    assert_none("crates that use others more levels deep than the rule allows", &deep);
}
