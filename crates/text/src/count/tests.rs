//! Three counts must agree: that of GNU wc, that of the reference over a whole text, and that of joined parts with
//! arbitrary boundaries.

use std::io::Write;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

const ALL: Wanted = Wanted { words: true, chars: true, columns: true };

/// Counters of every kind for the C locale and, if the system has it, for UTF-8.
fn counters() -> Vec<(&'static str, Counter)> {
    let locales = [("C", c"C"), ("C.UTF-8", c"C.UTF-8")];
    let mut counters = Vec::new();
    for (name, named) in locales {
        let Some(characters) = Characters::named(named).map(Arc::new) else { continue };
        for bits in 0..8 {
            let wanted = Wanted { words: bits & 1 > 0, chars: bits & 2 > 0, columns: bits & 4 > 0 };
            counters.push((name, Counter::new(Arc::clone(&characters), wanted, true).unwrap()));
        }
    }
    counters
}

/// Clears the figures that were not requested, which are unspecified.
fn asked(figures: Figures, wanted: Wanted) -> Figures {
    Figures {
        words: if wanted.words { figures.words } else { 0 },
        chars: if wanted.chars { figures.chars } else { 0 },
        columns: if wanted.columns { figures.columns } else { 0 },
        ..figures
    }
}

/// Texts in which special cases are frequent.
fn texts(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[a-z]{1,6}".prop_map(String::into_bytes),
        4 => prop::sample::select(vec![" ", "\n", "\t", "\r\n", "\u{b}", "\u{c}", "\r", "  "])
            .prop_map(|text| text.as_bytes().to_vec()),
        2 => any::<char>().prop_map(|character| character.to_string().into_bytes()),
        2 => prop::sample::select(vec!["é", "あ", "\u{3000}", "\u{a0}", "\u{2060}", "\u{301}", "😀", "\u{2028}", "\0"])
            .prop_map(|text| text.as_bytes().to_vec()),
        2 => prop::collection::vec(any::<u8>(), 1..4),
        // Starts and rests of long sequences.
        2 => prop::collection::vec(prop_oneof![0x80u8..0xc0, 0xc0u8..=0xff], 1..9),
        1 => "[a-z ]{200,500}".prop_map(String::into_bytes),
        1 => (0usize..200).prop_map(|nuls| vec![0; nuls]),
        1 => "[a \x01\n]{0,300}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..most).prop_map(|pieces| pieces.concat())
}

/// Joins the parts of a text in an order determined by `order`.
fn put_together(counter: &Counter, text: &[u8], cuts: &[usize], mut order: u64) -> Part {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).chain([0, text.len()]).collect();
    ends.sort_unstable();
    let mut parts: Vec<Part> = ends.windows(2).map(|ends| counter.count(&text[ends[0]..ends[1]])).collect();
    while parts.len() > 1 {
        let at = order as usize % (parts.len() - 1);
        let next = parts.remove(at + 1);
        parts[at] = counter.join(parts[at], &next);
        order = order.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    parts[0]
}

proptest! {
    #[test]
    fn parts_cut_anywhere_and_put_together_in_any_order_are_the_whole(
        text in texts(40), cuts in prop::collection::vec(any::<usize>(), 0..20), order: u64,
    ) {
        for (_, counter) in counters() {
            let plain = asked(counter.count_plainly(&text), counter.wanted);
            let whole = counter.figures(&counter.count(&text));
            prop_assert_eq!(asked(whole, counter.wanted), plain);
            let parts = counter.figures(&put_together(&counter, &text, &cuts, order));
            prop_assert_eq!(asked(parts, counter.wanted), plain);
        }
    }

    #[test]
    fn blocks_of_every_size_from_one_byte_on_are_the_whole(text in texts(12), order: u64) {
        for (_, counter) in counters().into_iter().filter(|(_, counter)| counter.wanted == ALL) {
            let plain = counter.count_plainly(&text);
            for block in 1..=text.len().max(1) {
                let cuts: Vec<usize> = (0..text.len()).step_by(block).collect();
                let parts = counter.figures(&put_together(&counter, &text, &cuts, order));
                prop_assert_eq!(parts, plain, "blocks of {}", block);
            }
        }
    }
}

#[test]
fn a_hole_is_as_many_nuls() {
    for (name, counter) in counters() {
        for (before, bytes, after) in
            [("a", 3, "b"), ("a ", 0, "b"), ("", 9000, "é"), ("\t", 70, "\n"), ("é", 1, "")]
        {
            let text = [before.as_bytes(), &vec![0; bytes], after.as_bytes()].concat();
            let hole = counter.join(counter.count(before.as_bytes()), &counter.count_hole(bytes as u64));
            let all = counter.figures(&counter.join(hole, &counter.count(after.as_bytes())));
            assert_eq!(
                asked(all, counter.wanted),
                asked(counter.count_plainly(&text), counter.wanted),
                "{name}"
            );
        }
    }
}

/// Returns the figures of `wc -lwmcL`, if the system's `wc` is GNU's.
fn gnu(locale: &str, text: &[u8]) -> Option<Figures> {
    let version = Command::new("wc").arg("--version").output().ok()?;
    String::from_utf8_lossy(&version.stdout).contains("GNU coreutils").then_some(())?;
    let mut wc = Command::new("wc");
    wc.arg("-lwmcL").env("LC_ALL", locale).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut wc = wc.spawn().unwrap();
    wc.stdin.take().unwrap().write_all(text).unwrap();
    let output = wc.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<u64> = printed.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [lines, words, chars, bytes, columns] = numbers[..] else { panic!("{printed}") };
    Some(Figures { lines, words, chars, bytes, columns })
}

fn same_as_gnu(text: &[u8]) {
    for (locale, counter) in counters().into_iter().filter(|(_, counter)| counter.wanted == ALL) {
        let Some(expected) = gnu(locale, text) else { return };
        assert_eq!(counter.count_plainly(text), expected, "{locale}: {text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn gnu_wc_counts_the_same(text in texts(400)) {
        same_as_gnu(&text);
    }

    #[test]
    fn gnu_wc_counts_the_same_in_random_bytes(text in prop::collection::vec(any::<u8>(), 0..100_000)) {
        same_as_gnu(&text);
    }
}

#[test]
fn gnu_wc_counts_the_same_in_every_character() {
    // Each character is surrounded by letters, which shows its effect on words and columns.
    for codes in (0..0x11_0000u32).collect::<Vec<_>>().chunks(0x1000) {
        let text: String = codes
            .iter()
            .filter_map(|&code| char::from_u32(code))
            .flat_map(|character| ['x', character])
            .collect();
        same_as_gnu(text.as_bytes());
    }
    let beyond: [&[u8]; 6] = [
        b"\xf4\x90\x80\x80",
        b"\xf7\xbf\xbf\xbf",
        b"\xf8\x88\x80\x80\x80",
        b"\xfd\xbf\xbf\xbf\xbf\xbf",
        b"\xed\xa0\x80",
        b"\xe3\x81",
    ];
    for bytes in beyond {
        same_as_gnu(&[b"a".as_slice(), bytes, b"b"].concat());
        same_as_gnu(bytes);
    }
}
