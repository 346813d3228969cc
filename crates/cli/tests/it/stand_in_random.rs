//! `wc` and `grep` with random options on files of random bytes: the output and the exit code of GNU's, if the system
//! has those. A failing case is printed.

use std::fs;

use crate::gnu::{is_gnu, same};
use crate::scratch::Scratch;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// Generates bytes in which special ones are frequent.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let words = select(vec![
        "abc", "ab", "foo", "Foo", "x", "été", "あい", "_", "-", " ", "\n", "\n\n", "\t", "\r\n",
    ]);
    let odd = select(vec![
        &b"\xff"[..],
        b"\xc3",
        b"\xe3\x81",
        b"\x80",
        b"\xf4\x90\x80\x80",
        b"\xed\xa0\x80",
        b"\0",
        b"\x01",
        b"\x7f",
        b"\x0b",
        b"\x0c",
        b"\xe3\x80\x80",
        b"\xc2\xa0",
        b"\xe2\x81\xa0",
        b"\xf0\x9f\x98\x80",
    ]);
    let piece = prop_oneof![
        6 => words.prop_map(|text| text.as_bytes().to_vec()),
        2 => odd.prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// Generates the same without the lead bytes of surrogates and of code points above U+10FFFF: GNU grep treats these
/// as characters in some patterns (`[^a]`, and `.` with `-o`), and as invalid bytes in others.
fn searched_bytes() -> impl Strategy<Value = Vec<u8>> {
    bytes().prop_map(|text| {
        let replace = |byte| if matches!(byte, 0xed | 0xf4..=0xfd) { b'x' } else { byte };
        text.into_iter().map(replace).collect()
    })
}

/// Creates a directory with two files of these bytes, one that is larger than a block, and some that are not text.
fn files(test: &str, first: &[u8], second: &[u8]) -> Scratch {
    let scratch = Scratch::new(test);
    scratch.file("first", first);
    scratch.file("second", second);
    scratch
        .file("large", [first, second, b"abc\n"].concat().repeat(300_000 / (first.len() + second.len() + 4)));
    scratch.file("empty", "");
    fs::create_dir(scratch.0.join("directory")).unwrap();
    scratch
}

fn operands() -> impl Strategy<Value = Vec<&'static str>> {
    let names =
        vec!["first", "second", "large", "empty", "-", "directory", "missing", "first/below", "/dev/null"];
    prop::collection::vec(select(names), 0..4)
}

/// Generates redirections of stdin and stdout.
fn redirection() -> impl Strategy<Value = &'static str> {
    select(vec![
        "< /dev/null",
        "< first",
        "< large",
        "< <(cat large)",
        "< directory",
        "<&-",
        "< first >&-",
        "< first > /dev/full",
    ])
}

fn locale() -> impl Strategy<Value = &'static str> {
    select(vec!["C", "C.UTF-8"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn wc_is_gnu_wc(
        first in bytes(), second in bytes(), operands in operands(), redirection in redirection(), locale in locale(),
        options in subsequence(vec!["-l", "-w", "-c", "-m", "-L"], 0..=5),
    ) {
        if is_gnu("wc") {
            let scratch = files("random_wc", &first, &second);
            let words = format!("{} -- {} {redirection}", options.join(" "), operands.join(" "));
            same(&scratch, locale, "wc", "wc", &words);
        }
    }

    #[test]
    fn grep_is_gnu_grep(
        first in searched_bytes(), second in searched_bytes(), operands in operands(), redirection in redirection(),
        locale in locale(),
        options in subsequence(
            vec!["-c", "-v", "-n", "-i", "-l", "-L", "-q", "-x", "-w", "-H", "-h", "-o", "-s", "-m1", "-m3"], 0..=4,
        ),
        // Patterns that mean the same in both dialects, and find the same with the leftmost as with the longest
        // match. The empty one is excluded: with -v, GNU grep then ends before it reads, without the output that -c
        // requests.
        patterns in prop::collection::vec(
            select(vec![
                "abc", "a.c", "()", "^", "$", "^$", "^abc", "x$", "[a-c]+", "[^a]", "fo{2}", "ab?", "été", "あ", "-", ".",
            ]),
            1..3,
        ),
        fixed: bool,
    ) {
        // The longest match among several patterns, and with -w the shorter one that is a word, differ: only one is
        // given.
        let one_pattern = options.contains(&"-o") || options.contains(&"-w");
        let patterns = if one_pattern { &patterns[..1] } else { &patterns[..] };
        // If names are printed, GNU grep leaves stdin after the buffer that contains the first match.
        let mut stdins = if options.contains(&"-l") || options.contains(&"-L") { 1 } else { usize::MAX };
        let operands = operands.into_iter().filter(|&name| {
            let is_kept = name != "-" || stdins > 0;
            stdins -= usize::from(is_kept && name == "-");
            is_kept
        });
        let operands: Vec<&str> = operands.collect();
        if is_gnu("grep") {
            let scratch = files("random_grep", &first, &second);
            let patterns: Vec<String> = patterns.iter().map(|pattern| format!("-e '{pattern}'")).collect();
            let kind = if fixed { "-F" } else { "-E" };
            let words =
                format!("{kind} {} {} -- {} {redirection}", options.join(" "), patterns.join(" "), operands.join(" "));
            same(&scratch, locale, "LC_ALL=C.UTF-8 grep -a", "grep", &words);
        }
    }
}
