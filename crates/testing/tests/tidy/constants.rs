//! Constants that say what they are: a figure has a subject in its name, and a comment with its unit or its reason.

use crate::assert_none;
use crate::source::sources;

/// Words that say how much, and not of what.
const QUANTIFIERS: [&str; 52] = [
    "AGES",
    "AWAY",
    "BELIEVED",
    "CALM",
    "CLEARLY",
    "EACH",
    "ELSEWHERE",
    "ENOUGH",
    "EVERY",
    "FEWEST",
    "FINEST",
    "FORGET",
    "FURTHEST",
    "GOOD",
    "HIGHEST",
    "KEPT",
    "LARGE",
    "LATELY",
    "LEAST",
    "LEAVE",
    "LITTLE",
    "LONG",
    "LONGEST",
    "LOST",
    "MANY",
    "MORE",
    "MOST",
    "MUCH",
    "NEAR",
    "NEARLY",
    "NEVER",
    "NOTICEABLE",
    "OFTEN",
    "ONE",
    "OTHERS",
    "PATIENCE",
    "RECENT",
    "REST",
    "SELDOM",
    "SEVERAL",
    "SHORT",
    "SHORTEST",
    "SHORTLY",
    "SMALL",
    "SOON",
    "STILL",
    "SURE",
    "USUAL",
    "WORKS",
    "WORTH",
    "WORTHWHILE",
    "YOUNG",
];

/// Types of figures.
const FIGURES: [&str; 17] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64",
    "Duration", "Bytes", "Nanos",
];

/// A constant: its name, and whether it is a figure.
fn constant(line: &str) -> Option<(&str, bool)> {
    let line = line.trim_start();
    let line = line
        .strip_prefix("pub ")
        .or_else(|| {
            line.split_once(") ").filter(|(before, _)| before.starts_with("pub(")).map(|(_, rest)| rest)
        })
        .unwrap_or(line);
    let (name, rest) = line.strip_prefix("const ")?.split_once(':')?;
    let kind: &str = rest.trim_start().split([' ', '=', ';']).next()?;
    (name.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_'))
        .then_some((name, FIGURES.contains(&kind)))
}

#[test]
fn a_figure_has_a_subject_in_its_name() {
    let mut findings = Vec::new();
    for source in sources() {
        for (number, line) in source.code.lines().enumerate() {
            if let Some((name, true)) = constant(line)
                && name.split('_').all(|word| QUANTIFIERS.contains(&word))
            {
                findings.push(format!("{}:{}: {name}", source.path, number + 1));
            }
        }
    }
    assert_none("constants whose names say how much, and not of what", &findings);
}

#[test]
fn a_constant_is_recognized() {
    assert_eq!(constant("    pub(crate) const A_MAX: u64 = 3;"), Some(("A_MAX", true)));
    assert_eq!(constant("const WORDS: [&str; 2] = [];"), Some(("WORDS", false)));
    assert_eq!(constant("const fn f() {}"), None);
    assert_eq!(constant("let a = 3;"), None);
}
