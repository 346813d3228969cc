//! Which crate may use which interface of the system, and what a pure module may not use.

use std::fs;

use crate::imports::{Path, imported, written};
use crate::source::sources;
use crate::table::{quoted, rows};
use crate::{assert_none, root};

/// Names that a pure module must not use.
const IMPURE: [&str; 10] = [
    "std::fs",
    "std::thread",
    "std::net",
    "std::env",
    "Instant::now",
    "SystemTime::now",
    "Mutex",
    "HashMap",
    "HashSet",
    "rustix",
];

#[test]
fn an_interface_of_the_system_is_named_only_where_the_architecture_says() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rules = rows(&text, "system interface");
    let sources = sources();
    let mut findings = Vec::new();
    for rule in &rules {
        let allowed: Vec<&str> = quoted(&rule[1]).collect();
        for interface in quoted(&rule[0]) {
            let named = sources.iter().filter(|source| uses(&source.code, interface));
            let wrong = named.filter(|source| !allowed.contains(&source.krate.as_str()));
            findings.extend(wrong.map(|source| format!("{} names {interface}", source.path)));
            let unused = allowed.iter().filter(|&&krate| {
                !sources.iter().any(|source| source.krate == krate && uses(&source.code, interface))
            });
            if quoted(&rule[0]).count() == 1 {
                findings
                    .extend(unused.map(|krate| format!("crate {krate} may name {interface}, and does not")));
            }
        }
    }
    assert_none("the table of interfaces in ARCHITECTURE.md differs from the code", &findings);
}

#[test]
fn a_pure_module_names_no_clock_file_or_thread() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let sources = sources();
    let mut findings = Vec::new();
    for row in rows(&text, "pure modules of") {
        let krate = quoted(&row[0]).next().unwrap();
        for module in quoted(&row[1]) {
            let prefix = format!("crates/{krate}/src/{module}");
            let mut of = sources.iter().filter(|source| {
                source.path.strip_prefix(&prefix).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            });
            let mut any = false;
            for source in of.by_ref() {
                any = true;
                let impure = IMPURE.iter().filter(|word| names(&source.code, word));
                findings.extend(impure.map(|word| format!("{} names {word}", source.path)));
            }
            if !any {
                findings.push(format!("{prefix}.rs is listed as pure and does not exist"));
            }
        }
    }
    assert_none("modules that ARCHITECTURE.md lists as pure are not", &findings);
}

/// Returns whether `code` contains `path` as whole words.
fn names(code: &str, path: &str) -> bool {
    let is_word =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    code.match_indices(path).any(|(at, _)| {
        !is_word(code[..at].chars().next_back()) && !is_word(code[at + path.len()..].chars().next())
    })
}

/// Returns whether `code` uses an interface: a keyword, or a path that begins with its names.
fn uses(code: &str, interface: &str) -> bool {
    let wanted: Vec<&str> = interface.split("::").collect();
    let begins = |path: &Path| {
        path.len() > 1 && path.iter().map(String::as_str).take(wanted.len()).eq(wanted.iter().copied())
    };
    match interface {
        "unsafe" => names(code, interface),
        _ => imported(code).iter().any(|(_, path)| begins(path)) || written(code).iter().any(begins),
    }
}

#[test]
fn a_path_is_matched_by_whole_words_only() {
    assert!(names("use std::fs;", "std::fs"));
    assert!(!names("use std::fs2;", "std::fs"));
    assert!(uses("use libc::c_int;", "libc") && uses("unsafe {", "unsafe"));
    assert!(uses("\nuse rustix::{fs::open, process::getuid};", "rustix::process"));
    assert!(!uses("a::libc::x; b_libc::x; fn libc()", "libc"));
}
