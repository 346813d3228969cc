//! `cargo bench -p sakiyomi-text --bench count`: speed of counting a text in the CPU's cache.

use std::sync::Arc;

use divan::Bencher;
use divan::counter::BytesCount;
use sakiyomi_os::ctype::Characters;
use sakiyomi_text::count::{Counter, Wanted};

fn main() {
    divan::main();
}

const BLOCK: usize = 128 << 10;

fn text(every: usize, odd: &str) -> Vec<u8> {
    let mut text = String::new();
    for word in 0.. {
        if text.len() >= BLOCK {
            break;
        }
        text.push_str(if word % every == every - 1 { odd } else { ["lorem", "ip", "dolorem"][word % 3] });
        text.push(if word % 11 == 10 { '\n' } else { ' ' });
    }
    text.into_bytes()
}

fn counter(wanted: Wanted) -> Counter {
    let characters = Characters::named(c"C.UTF-8").or_else(|| Characters::named(c"C")).expect("a locale");
    Counter::new(Arc::new(characters), wanted, true).expect("UTF-8 is known")
}

const WORDS: Wanted = Wanted { words: true, chars: false, columns: false };

fn count(bencher: Bencher, wanted: Wanted, text: Vec<u8>) {
    let counter = counter(wanted);
    bencher.counter(BytesCount::of_slice(&text)).bench(|| counter.count(divan::black_box(&text)));
}

#[divan::bench]
fn lines(bencher: Bencher) {
    count(bencher, Wanted::default(), text(1000, "x"));
}

#[divan::bench]
fn words(bencher: Bencher) {
    count(bencher, WORDS, text(1000, "x"));
}

#[divan::bench(args = [1, 10, 100, 1000])]
fn words_one_of_which_is_no_ascii(bencher: Bencher, every: usize) {
    count(bencher, WORDS, text(every, "été"));
}

#[divan::bench]
fn words_of_another_script(bencher: Bencher) {
    count(bencher, WORDS, text(1, "слово"));
}

#[divan::bench]
fn columns(bencher: Bencher) {
    count(bencher, Wanted { columns: true, ..WORDS }, text(1000, "x"));
}

#[divan::bench]
fn plainly(bencher: Bencher) {
    let (counter, text) = (counter(WORDS), text(1000, "x"));
    bencher.counter(BytesCount::of_slice(&text)).bench(|| counter.count_plainly(divan::black_box(&text)));
}
