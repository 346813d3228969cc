//! The glossary leads from the field's terms to the code.

use std::fs;

use crate::table::{quoted, rows};
use crate::{assert_none, root};

#[test]
fn every_term_of_the_glossary_leads_to_an_item_that_exists() {
    let text = fs::read_to_string(root().join("docs/reference/glossary.md")).unwrap();
    let rows = rows(&text, "term");
    assert!(rows.len() >= 40, "{} terms", rows.len());
    let missing = rows.iter().flat_map(|row| quoted(&row[2])).filter(|path| !exists(path));
    assert_none(
        "the glossary names items that do not exist",
        &missing.map(str::to_owned).collect::<Vec<_>>(),
    );
}

#[test]
fn terms_are_in_alphabetical_order() {
    let text = fs::read_to_string(root().join("docs/reference/glossary.md")).unwrap();
    let terms: Vec<String> = rows(&text, "term").iter().map(|row| row[0].to_lowercase()).collect();
    assert!(terms.is_sorted(), "{terms:?}");
}

/// Whether `crate::module::…::Item` is declared in the file of its module, or `crate::…::module` is a file.
fn exists(path: &str) -> bool {
    let Some((crate_name, modules)) = path.split_once("::") else { return false };
    let source = root().join("crates").join(crate_name).join("src");
    let file = |modules: &str| source.join(modules.replace("::", "/")).with_extension("rs");
    if file(modules).exists() {
        return true;
    }
    let (module, item) = modules.rsplit_once("::").unwrap_or(("lib", modules));
    let declared = |text: String| {
        text.split(['(', '<', ' ', ';', ':', '\n']).collect::<Vec<_>>().windows(2).any(|words| {
            let keywords = ["struct", "enum", "trait", "fn", "const", "type", "mod"];
            keywords.contains(&words[0]) && words[1] == item
        })
    };
    fs::read_to_string(file(module)).is_ok_and(declared)
}

#[test]
fn an_item_that_does_not_exist_is_found() {
    assert!(exists("io::atomic::AtomicFile") && exists("query::cost"));
    assert!(!exists("io::atomic::NoSuchType") && !exists("io::no_such_module::AtomicFile") && !exists("io"));
}
