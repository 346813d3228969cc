//! Comments are sentences with a subject.

use std::fs;

use crate::assert_none;
use crate::documents::files_with_extension;

/// Words with which a clause without a subject begins.
const HEADLESS: [&str; 5] = ["Who", "Whose", "Whom", "What", "Has"];

/// Whether the line is a comment, or has one at its end, that begins with such a word.
fn is_headless(line: &str) -> bool {
    let Some((_, comment)) = line.split_once("//") else { return false };
    let first = comment.trim_start_matches(['/', '!', ' ']).split(|c: char| !c.is_alphanumeric()).next();
    first.is_some_and(|word| HEADLESS.contains(&word))
}

#[test]
fn no_comment_begins_with_a_clause_without_a_subject() {
    let mut findings = Vec::new();
    for path in files_with_extension("rs") {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().enumerate().filter(|(_, line)| is_headless(line));
        findings.extend(lines.map(|(number, line)| format!("{}:{}: {line}", path.display(), number + 1)));
    }
    assert_none("comments that begin with Who, Whose, Whom, What or Has", &findings);
}

#[test]
fn such_comments_are_found() {
    let comments = ["//", "///", "//!", "let a = 1; //"].map(|mark| format!("{mark} Whose turn it is."));
    assert!(comments.iter().all(|line| is_headless(line)));
    assert!(!is_headless("// The whole. Who waits?") && !is_headless("let a = 1; // Whole pages."));
}
