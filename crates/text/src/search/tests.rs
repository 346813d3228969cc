//! A block is searched as each of its lines is, and GNU grep selects the same lines.

use std::io::Write;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

fn patterns() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a",
        "b+",
        "^a",
        "a$",
        "^$",
        "",
        r"\s+",
        r"a\sb",
        "[^a]",
        "[^a]b",
        r"\bab\b",
        r"\Aa",
        r"b\z",
        "(?-m)^a",
        r"\B",
        "a.b",
        "(?s)a.b",
        "a|b\nab",
        "ab?",
        "[a-b]+é",
        "[ab]*bé[^b]",
        r"\w+A\b",
        "é",
        "(?i)AB",
        "[[:space:]]b",
        "^",
        "$",
    ])
    .prop_map(str::to_owned)
}

proptest! {
    // Few patterns, which take long to compile, and many texts for each.
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_block_is_searched_as_each_line_is(
        texts in prop::collection::vec("[abAé \n\r]{0,30}", 40), pattern in patterns(),
        ignore_case: bool, whole_words: bool, whole_lines: bool, invert: bool, fixed: bool,
    ) {
        let meaning = Meaning { fixed, ignore_case, whole_words, whole_lines, invert };
        let searcher = Searcher::new(&[pattern], meaning).unwrap();
        for text in texts {
            let block = text.as_bytes();
            let expected: Vec<&[u8]> = block
                .split_inclusive(|&byte| byte == b'\n')
                .filter(|line| searcher.matches(line) != invert)
                .collect();
            let mut found = Vec::new();
            searcher.lines(block, |at, line| {
                assert_eq!(&block[at..at + line.len()], line);
                found.push(line);
            });
            prop_assert_eq!(searcher.count(block), expected.len() as u64, "{:?}", text);
            prop_assert_eq!(found, expected, "{:?}", text);
        }
    }
}

fn bytes_of_no_ascii() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(0x80u8..=0xff, 0..4),
        prop::sample::select(vec!["é", "×", "あ", "。", "𝒂", "😀"]).prop_map(|text| text.as_bytes().to_vec()),
    ];
    prop::collection::vec(piece, 0..3).prop_map(|pieces| pieces.concat())
}

#[test]
fn what_belongs_to_no_character_ends_a_word() {
    let searcher = Searcher::new(&["ab"], Meaning { whole_words: true, ..Meaning::default() }).unwrap();
    proptest!(|(before in bytes_of_no_ascii(), behind in bytes_of_no_ascii())| {
        let line = [&before[..], b"ab", &behind[..]].concat();
        // GNU grep does so too: only a character that ends right before the match, or begins right after
        // it, can belong
        // to the word.
        let last = (1..=before.len()).find_map(|from| std::str::from_utf8(&before[before.len() - from..]).ok());
        let first = (1..=behind.len()).find_map(|to| std::str::from_utf8(&behind[..to]).ok());
        let is_longer = [last, first].into_iter().flatten().any(|text| text.chars().all(|character| character == '_' || character.is_alphanumeric()));
        prop_assert_eq!(searcher.count(&line), u64::from(!is_longer), "{:x?}", line);
    });
}

#[test]
fn matches_in_a_line_are_those_that_make_it_one() {
    let matches = |pattern: &str, meaning, line: &'static [u8]| {
        let mut found = Vec::new();
        Searcher::new(&[pattern], meaning).unwrap().matches_in(line, |text| found.push(text));
        found
    };
    let (any, words) = (Meaning::default(), Meaning { whole_words: true, ..Meaning::default() });
    assert_eq!(matches("b*", any, b"abcbb\n"), [&b"b"[..], b"bb"]);
    assert_eq!(matches("ab|cd", words, b"ab cd abcd\xffab \xc3\xa9ab"), [&b"ab"[..], b"cd", b"ab"]);
    assert_eq!(matches("a+", words, b"aaa"), [&b"aaa"[..]]);
    assert_eq!(matches("-", words, b"---"), [&b"-"[..]; 3]);
    assert_eq!(matches("-", words, b"a--a---"), [&b"-"[..]; 2]);
    assert_eq!(matches("^-|a", words, b"--\xffa"), [&b"-"[..], b"a"]);
    assert_eq!(matches("。", words, "。。 。".as_bytes()), ["。".as_bytes(); 3]);
    assert_eq!(matches("a.", Meaning { whole_lines: true, ..any }, b"ab\n"), [&b"ab"[..]]);
    assert_eq!(matches("a", Meaning { whole_lines: true, ..any }, b"ab\n"), [&b""[..]; 0]);
}

#[test]
fn without_a_pattern_nothing_matches() {
    let none: [&str; 0] = [];
    assert_eq!(Searcher::new(&none, Meaning::default()).unwrap().count(b"a\n\n"), 0);
    assert_eq!(
        Searcher::new(&none, Meaning { invert: true, ..Meaning::default() }).unwrap().count(b"a\n\n"),
        2
    );
}

#[test]
fn what_is_no_pattern_is_refused() {
    for bad in ["(", "a)(b", "[", r"(a)\1", r"a\nb"] {
        assert!(Searcher::new(&[bad], Meaning::default()).is_err(), "{bad}");
        assert!(Searcher::new(&[bad], Meaning { fixed: true, ..Meaning::default() }).is_ok());
    }
}

/// Characters of which some are words, bound words, or do neither in one of the two programs.
const CHARACTERS: [&str; 16] = [
    "a", "a", "b", "ab", "A", "7", "_", "-", " ", "é", "É", "あ", "\u{301}", "\u{93e}", "\u{203f}",
    "\u{200d}",
];

/// Patterns with one meaning in both programs.
fn common_patterns() -> impl Strategy<Value = String> {
    let one = prop_oneof![
        6 => prop::sample::select(CHARACTERS.to_vec()).prop_map(str::to_owned),
        2 => prop::sample::select(vec![".", "[ab]", "[^a]", "[a-z]", "[é-]", "[^b_]", "()", "ab", "ba"])
            .prop_map(str::to_owned),
    ];
    let inner = one.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|parts| format!("({})", parts.join("|"))),
            (inner, prop::sample::select(vec!["*", "+", "?", "{2}", "{0,2}"]))
                .prop_map(|(part, many)| format!("({part}){many}")),
        ]
    });
    let anchored = (prop::bool::weighted(0.15), inner, prop::bool::weighted(0.15));
    anchored.prop_map(|(start, inner, end)| {
        format!("{}{inner}{}", if start { "^" } else { "" }, if end { "$" } else { "" })
    })
}

/// Texts with invalid bytes, and characters that end before or begin after them.
fn common_texts() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        12 => prop::sample::select(CHARACTERS.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        3 => Just(b"\n".to_vec()),
        1 => prop::sample::select(vec![&b"\xff"[..], b"\xc3", b"\x81\x82", b"\xe3\x81", b"\xa9", b"\0", b"\r", b"\t"])
            .prop_map(<[u8]>::to_vec),
    ];
    prop::collection::vec(piece, 0..200).prop_map(|pieces| pieces.concat())
}

/// Returns the numbers of the lines that GNU grep selects; `None` if the system's `grep` is another program.
fn gnu(patterns: &[String], meaning: Meaning, text: &[u8]) -> Option<Vec<u64>> {
    let version = Command::new("grep").arg("--version").output().ok()?;
    String::from_utf8_lossy(&version.stdout).contains("GNU grep").then_some(())?;
    let mut grep = Command::new("grep");
    grep.args(["-a", "-n", if meaning.fixed { "-F" } else { "-E" }]).env("LC_ALL", "C.UTF-8");
    let options = [
        (meaning.ignore_case, "-i"),
        (meaning.whole_words, "-w"),
        (meaning.whole_lines, "-x"),
        (meaning.invert, "-v"),
    ];
    grep.args(options.iter().filter(|(is_on, _)| *is_on).map(|(_, option)| option));
    patterns.iter().for_each(|pattern| {
        grep.args(["-e", pattern]);
    });
    let mut grep = grep.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    grep.stdin.take().unwrap().write_all(text).unwrap();
    let output = grep.wait_with_output().unwrap();
    assert!(output.status.code() < Some(2), "{patterns:?}");
    let number =
        |line: &[u8]| String::from_utf8_lossy(line.split(|&byte| byte == b':').next().unwrap()).parse();
    let lines = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    Some(lines.map(|line| number(line).unwrap()).collect())
}

/// Returns the numbers of the lines that a searcher selects.
fn ours(patterns: &[String], meaning: Meaning, text: &[u8]) -> Vec<u64> {
    let mut numbers = Vec::new();
    let searcher = Searcher::new(patterns, meaning).unwrap();
    searcher.lines(text, |at, _| numbers.push(lines(&text[..at]) + 1));
    assert_eq!(searcher.count(text), numbers.len() as u64);
    numbers
}

#[test]
fn gnu_grep_selects_the_same_lines() {
    if gnu(&["a".to_owned()], Meaning::default(), b"a\n").is_none() {
        return sakiyomi_testing::skipped("gnu_grep_selects_the_same_lines", "GNU grep is not installed");
    }
    let cases = (prop::collection::vec(common_patterns(), 1..3), common_texts(), any::<[bool; 5]>());
    proptest!(ProptestConfig::with_cases(cases_of(100)), |((patterns, text, flags) in cases)| {
        let [fixed, ignore_case, whole_words, whole_lines, invert] = flags;
        let meaning = Meaning { fixed, ignore_case, whole_words, whole_lines, invert };
        // GNU grep finds an empty word between the bytes of a character.
        let of_nothing = ours(&patterns, Meaning { whole_words: false, ..meaning }, b"\n");
        prop_assume!(!whole_words || whole_lines || invert != of_nothing.is_empty() || text.is_ascii());
        let expected = gnu(&patterns, meaning, &text).unwrap();
        prop_assert_eq!(ours(&patterns, meaning, &text), expected, "{:?} {:?}", patterns, meaning);
    });
}

/// Returns the number of random cases: `usual`, unless `PROPTEST_CASES` names another.
fn cases_of(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}
