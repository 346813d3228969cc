//! Names of constants: a figure has a subject in its name, and a comment with its meaning and its reason.

use std::fs;

use crate::assert_none;
use crate::source::sources;

/// Words that quantify without naming a subject.
const QUANTIFIERS: [&str; 81] = [
    "AGES",
    "AHEAD",
    "AT",
    "AWAY",
    "BEHIND",
    "BELIEVED",
    "BEYOND",
    "CALM",
    "CLEAR",
    "CLEARLY",
    "EACH",
    "ELSEWHERE",
    "ENOUGH",
    "EVERY",
    "FAR",
    "FETCHED",
    "FEWEST",
    "FINEST",
    "FIRST",
    "FLAT",
    "FORGET",
    "FURTHEST",
    "GIVEN",
    "GOOD",
    "HELD",
    "HIGH",
    "HIGHEST",
    "KEPT",
    "LARGE",
    "LATELY",
    "LEAST",
    "LEAVE",
    "LEFT",
    "LIMIT",
    "LITTLE",
    "LONG",
    "LONGEST",
    "LOOK",
    "LOOKS",
    "LOST",
    "LOW",
    "MANY",
    "MAX",
    "MIN",
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
    "REMEMBERED",
    "REST",
    "ROOM",
    "SELDOM",
    "SEVERAL",
    "SHARE",
    "SHORT",
    "SHORTEST",
    "SHORTLY",
    "SMALL",
    "SOON",
    "STEP",
    "STILL",
    "SURE",
    "TIMES",
    "TOLD",
    "TOTAL",
    "TURN",
    "USUAL",
    "WAITED",
    "WHOLE",
    "WORKS",
    "WORTH",
    "WORTHWHILE",
    "YOUNG",
];

/// Words that must not begin a name: a bound ends in `_MIN` or `_MAX`, or has them before its unit.
const SUPERLATIVES: [&str; 9] =
    ["MOST", "LEAST", "LONGEST", "SHORTEST", "HIGHEST", "LOWEST", "LARGEST", "SMALLEST", "USUAL"];

/// Units. A name that ends in one of them needs no comment, and a name of a single word must be one of them.
const UNITS: [&str; 16] = [
    "BYTES",
    "KIB",
    "MIB",
    "GIB",
    "NS",
    "US",
    "MS",
    "S",
    "MICROSECOND",
    "MILLISECOND",
    "SECOND",
    "MINUTE",
    "HOUR",
    "DAY",
    "PERCENT",
    "BITS",
];

/// Types of figures.
const FIGURES: [&str; 20] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64",
    "Duration", "Bytes", "Nanos", "c_int", "c_uint", "c_long",
];

/// Parses a constant: its name, and whether it is a figure.
fn constant(line: &str) -> Option<(&str, bool)> {
    let line = line.trim_start();
    let line = line
        .strip_prefix("pub ")
        .or_else(|| {
            line.split_once(") ").filter(|(before, _)| before.starts_with("pub(")).map(|(_, rest)| rest)
        })
        .unwrap_or(line);
    let (name, rest) = line.strip_prefix("const ")?.split_once(':')?;
    let kind = rest.split('=').next()?;
    (name.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_'))
        .then_some((name, is_figure(kind)))
}

/// Returns whether a type is that of a figure, or a tuple, an array or a range of figures.
fn is_figure(kind: &str) -> bool {
    let mut words = kind
        .split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'))
        .map(|path| path.rsplit("::").next().unwrap_or(path))
        .filter(|word| {
            word.contains(|letter: char| letter.is_ascii_lowercase()) && !word.starts_with("Range")
        })
        .peekable();
    !kind.contains('&') && words.peek().is_some() && words.all(|word| FIGURES.contains(&word))
}

/// Returns whether a name consists of quantifiers, begins with a superlative, or is a single word that is not a unit.
fn lacks_subject(name: &str) -> bool {
    let mut words = name.split('_');
    words.clone().all(|word| QUANTIFIERS.contains(&word))
        || words.clone().next().is_some_and(|word| SUPERLATIVES.contains(&word))
        || words.next().is_some_and(|word| !UNITS.contains(&word)) && words.next().is_none()
}

/// Returns whether a comment ends the line of this index, or the lines above it are a comment and attributes.
fn has_comment(lines: &[&str], index: usize) -> bool {
    let above = lines[..index].iter().rev().find(|line| !line.trim_start().starts_with("#["));
    above.is_some_and(|line| line.trim_start().starts_with("//")) || lines[index].contains("; //")
}

fn ends_in_unit(name: &str) -> bool {
    name.rsplit('_').next().is_some_and(|word| UNITS.contains(&word))
}

#[test]
fn a_figure_has_a_subject_in_its_name() {
    let mut findings = Vec::new();
    for source in sources() {
        for (number, line) in source.code.lines().enumerate() {
            if let Some((name, true)) = constant(line)
                && lacks_subject(name)
            {
                findings.push(format!("{}:{}: {name}", source.path, number + 1));
            }
        }
    }
    assert_none("constants whose names say how much, and not of what", &findings);
}

#[test]
fn a_figure_has_a_comment_unless_its_name_ends_in_a_unit() {
    let mut findings = Vec::new();
    for source in sources() {
        let text = fs::read_to_string(crate::root().join(&source.path)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in source.code.lines().enumerate() {
            if let Some((name, true)) = constant(line)
                && !ends_in_unit(name)
                && !has_comment(&lines, index)
            {
                findings.push(format!("{}:{}: {name}", source.path, index + 1));
            }
        }
    }
    assert_none("constants without a comment", &findings);
}

#[test]
fn a_name_without_a_subject_is_recognized() {
    for name in ["LEAST", "MOST_CALM", "LOOK_EVERY", "BUFFER", "LONGEST_SLEEP"] {
        assert!(lacks_subject(name), "{name}");
    }
    for name in ["READ_AHEAD_MIN_BYTES", "FILES_MAX", "SECOND", "MIB"] {
        assert!(!lacks_subject(name), "{name}");
    }
}

#[test]
fn a_comment_is_recognized() {
    let lines =
        ["/// Why.", "#[allow(unused)]", "const A: u8 = 1;", "const B: u8 = 2;", "const C: u8 = 3; // why"];
    let commented: Vec<bool> = (2..5).map(|index| has_comment(&lines, index)).collect();
    assert_eq!(commented, [true, false, true]);
}

#[test]
fn a_constant_is_recognized() {
    assert_eq!(constant("    pub(crate) const A_MAX: u64 = 3;"), Some(("A_MAX", true)));
    assert_eq!(constant("const WORDS: [&str; 2] = [];"), Some(("WORDS", false)));
    assert_eq!(constant("const PAIRS: (u32, Nanos) = (1, A);"), Some(("PAIRS", true)));
    assert_eq!(constant("const COUNTS: std::ops::Range<usize> = 1..2;"), Some(("COUNTS", true)));
    assert_eq!(constant("const ZONES: [Zone; 2] = [A, B];"), Some(("ZONES", false)));
    assert_eq!(constant("const fn f() {}"), None);
    assert_eq!(constant("let a = 3;"), None);
}
