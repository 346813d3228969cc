//! The crates that are published: their metadata is complete, their licenses are in them, and they depend on published
//! crates only. What a registry checks beyond that, `.ci/run` does by `cargo publish --dry-run`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use toml::{Table, Value};

use crate::source::crates;
use crate::{assert_none, root};

/// The libraries, each of which is published with all that it depends on.
const LIBRARIES: [&str; 4] = ["exec", "io", "iorate", "prefetch"];
/// Categories of the registry that are in use here.
const CATEGORIES: [&str; 8] = [
    "algorithms",
    "asynchronous",
    "concurrency",
    "data-structures",
    "filesystem",
    "os::linux-apis",
    "simulation",
    "text-processing",
];
/// Maximum number of keywords and of categories that the registry accepts.
const TERMS_MAX: usize = 5;
/// Maximum length of a keyword that the registry accepts.
const KEYWORD_MAX_BYTES: usize = 20;
/// Maximum length of a description that lists of search results show whole.
const DESCRIPTION_MAX_CHARS: usize = 150;

fn directory(krate: &str) -> PathBuf {
    root().join("crates").join(krate)
}

fn manifest(path: PathBuf) -> Table {
    fs::read_to_string(path.join("Cargo.toml")).unwrap().parse().unwrap()
}

fn package(krate: &str) -> Table {
    manifest(directory(krate))["package"].as_table().unwrap().clone()
}

fn workspace() -> Table {
    manifest(root())["workspace"].as_table().unwrap().clone()
}

fn is_published(krate: &str) -> bool {
    package(krate).get("publish").and_then(Value::as_bool) == Some(true)
}

/// The crates that are published.
fn published() -> Vec<String> {
    crates().into_iter().filter(|krate| is_published(krate)).collect()
}

/// The project's crates that a crate depends on, also for a feature, but not for tests.
fn dependencies(krate: &str) -> BTreeSet<String> {
    let manifest = manifest(directory(krate));
    let used =
        ["dependencies", "build-dependencies"].into_iter().filter_map(|name| manifest.get(name)?.as_table());
    used.flatten().filter_map(|(name, _)| name.strip_prefix("sakiyomi-").map(str::to_owned)).collect()
}

/// The texts of a list.
fn texts<'a>(package: &'a Table, name: &str) -> Vec<&'a str> {
    package.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Defects of the metadata of a crate, as a registry or its reader would find them.
fn flaws(package: &Table) -> Vec<String> {
    let mut found = Vec::new();
    for name in ["version", "edition", "rust-version", "license"] {
        if package.get(name).and_then(|value| value.get("workspace")).and_then(Value::as_bool) != Some(true) {
            found.push(format!("{name} is not that of the workspace"));
        }
    }
    let description = package.get("description").and_then(Value::as_str).unwrap_or_default();
    if description.is_empty()
        || description.chars().count() > DESCRIPTION_MAX_CHARS
        || description.ends_with('.')
    {
        found.push(format!("a description has 1 to {DESCRIPTION_MAX_CHARS} characters, and no full stop"));
    }
    let (keywords, categories) = (texts(package, "keywords"), texts(package, "categories"));
    for (name, terms) in [("keywords", &keywords), ("categories", &categories)] {
        let different: BTreeSet<_> = terms.iter().collect();
        if terms.is_empty() || terms.len() > TERMS_MAX || different.len() < terms.len() {
            found.push(format!("1 to {TERMS_MAX} different {name} are accepted"));
        }
    }
    let is_keyword = |word: &&&str| {
        let is_fit =
            word.len() <= KEYWORD_MAX_BYTES && word.starts_with(|first: char| first.is_ascii_lowercase());
        is_fit && word.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-')
    };
    found.extend(
        keywords.iter().filter(|word| !is_keyword(word)).map(|word| format!("`{word}` is not a keyword")),
    );
    let unknown = categories.iter().filter(|category| !CATEGORIES.contains(category));
    found.extend(unknown.map(|category| format!("`{category}` is not a known category")));
    if package.get("readme").and_then(Value::as_str) != Some("README.md") {
        found.push("readme is not \"README.md\"".to_owned());
    }
    found
}

#[test]
fn the_libraries_and_all_that_they_depend_on_are_published() {
    let mut needed: BTreeSet<String> = LIBRARIES.map(str::to_owned).into();
    let mut open: Vec<String> = needed.iter().cloned().collect();
    while let Some(krate) = open.pop() {
        open.extend(dependencies(&krate).into_iter().filter(|other| needed.insert(other.clone())));
    }
    let published: BTreeSet<String> = published().into_iter().collect();
    let findings = needed.symmetric_difference(&published).map(|krate| format!("crates/{krate}"));
    assert_none("`publish` differs from what the libraries need", &findings.collect::<Vec<_>>());
}

#[test]
fn published_crates_have_complete_metadata() {
    let findings = published().into_iter().flat_map(|krate| {
        let flaws = flaws(&package(&krate));
        flaws.into_iter().map(move |flaw| format!("crates/{krate}/Cargo.toml: {flaw}"))
    });
    assert_none("metadata of published crates", &findings.collect::<Vec<_>>());
}

#[test]
fn published_crates_have_their_licenses_and_a_page_that_names_them() {
    let mut findings = Vec::new();
    for krate in published() {
        let directory = directory(&krate);
        for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
            if fs::read(directory.join(name)).ok() != fs::read(root().join(name)).ok() {
                findings.push(format!(
                    "crates/{krate}/{name} is not that of the workspace; make it a link to that"
                ));
            }
        }
        let page = fs::read_to_string(directory.join("README.md")).unwrap_or_default();
        if !page.starts_with(&format!("# sakiyomi-{krate}\n")) || !page.contains("Apache-2.0 OR") {
            findings.push(format!("crates/{krate}/README.md lacks its heading or its license"));
        }
    }
    assert_none("files of published crates", &findings);
}

#[test]
fn published_crates_name_the_versions_of_those_that_they_depend_on() {
    let workspace = workspace();
    let (version, dependencies_of_all) = (&workspace["package"]["version"], &workspace["dependencies"]);
    let mut findings = Vec::new();
    for krate in published() {
        for other in dependencies(&krate) {
            let entry = &dependencies_of_all[&format!("sakiyomi-{other}")];
            if entry.get("version") != Some(version) {
                findings.push(format!(
                    "Cargo.toml: sakiyomi-{other}, which {krate} uses, has not version {version}"
                ));
            }
        }
        let manifest = manifest(directory(&krate));
        let used = manifest.get("dependencies").and_then(Value::as_table).into_iter().flatten();
        let own = used.filter(|(_, entry)| entry.get("workspace").and_then(Value::as_bool) != Some(true));
        findings.extend(own.map(|(name, _)| format!("crates/{krate}: {name} is not that of the workspace")));
    }
    assert_none("dependencies of published crates", &findings);
}

#[test]
fn flaws_of_metadata_are_found() {
    let good = package("io");
    assert_eq!(flaws(&good), [""; 0]);
    let changes: [(&str, &str, &str); 9] = [
        ("license", "\"MIT\"", "license is not that of the workspace"),
        ("description", "\"\"", "a description has 1 to 150 characters"),
        ("description", "\"Reads.\"", "a description has 1 to 150 characters"),
        ("keywords", "[]", "1 to 5 different keywords"),
        ("keywords", "[\"io\", \"io\"]", "1 to 5 different keywords"),
        ("keywords", "[\"page cache\"]", "`page cache` is not a keyword"),
        ("keywords", "[\"a-word-that-is-too-long\"]", "is not a keyword"),
        ("categories", "[\"files\"]", "`files` is not a known category"),
        ("readme", "false", "readme is not"),
    ];
    for (name, value, flaw) in changes {
        let mut package = good.clone();
        let value: Table = format!("value = {value}").parse().unwrap();
        package.insert(name.to_owned(), value["value"].clone());
        let found = flaws(&package);
        assert!(found.len() == 1 && found[0].contains(flaw), "{name}: {found:?}");
    }
}
