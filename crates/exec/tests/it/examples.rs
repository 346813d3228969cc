//! The examples, run on small files.

#[path = "../../examples/brc/main.rs"]
mod brc;
#[path = "../../examples/csv_sum.rs"]
mod csv_sum;
#[path = "../../examples/digest_tree.rs"]
mod digest_tree;
#[path = "../../examples/histogram.rs"]
mod histogram;
#[path = "../../examples/top_words.rs"]
mod top_words;

use sakiyomi_testing::ScratchFile;

#[test]
fn a_histogram_counts_each_byte() {
    let counts = histogram::histogram(ScratchFile::new("abacus").path()).unwrap();
    assert_eq!((counts[usize::from(b'a')], counts[usize::from(b'u')], counts[usize::from(b'z')]), (2, 1, 0));
}

#[test]
fn a_column_is_added_up() {
    let rows: String = (0..50_000).map(|row| format!("\"a, \"\"b\"\"\n{row}\",{row}.5\n")).collect();
    let file = ScratchFile::new(format!("name,amount\n{rows}"));
    assert_eq!(
        csv_sum::csv_sum(file.path(), "amount").unwrap(),
        (0..50_000).map(f64::from).sum::<f64>() + 25_000.0
    );
    assert_eq!(csv_sum::csv_sum(file.path(), "price").unwrap_err().to_string(), "no such column");
    let file = ScratchFile::new("amount\n1\none\n");
    let error = csv_sum::csv_sum(file.path(), "amount").unwrap_err();
    assert_eq!(error.source().unwrap().to_string(), "\"one\" is not a number");
}

#[test]
fn the_most_frequent_words_come_first() {
    let one = ScratchFile::new("to be or not to be\n");
    let other = ScratchFile::new("to be, that is\n".repeat(30_000));
    let paths = [one.path().to_owned(), other.path().to_owned()];
    let words = top_words::top_words(&paths, 3, |_| {}).unwrap();
    let expected = [("to", 30_002), ("be,", 30_000), ("is", 30_000)];
    assert!(
        words
            .iter()
            .map(|(word, count)| (&word[..], *count))
            .eq(expected.map(|(word, count)| (word.as_bytes(), count)))
    );
}

#[test]
fn a_tree_tells_where_files_differ() {
    let mut bytes = vec![7; 1 << 20];
    let one = ScratchFile::new(&bytes);
    bytes[300_000] = 8;
    let other = ScratchFile::new(&bytes);
    let leaves = digest_tree::leaves(one.path()).unwrap();
    assert_eq!(leaves.len(), (1 << 20) / digest_tree::LEAF_BYTES);
    assert_ne!(digest_tree::root(leaves), digest_tree::root(digest_tree::leaves(other.path()).unwrap()));
    assert_eq!(
        digest_tree::first_difference(one.path(), other.path()).unwrap(),
        Some(4 * digest_tree::LEAF_BYTES as u64)
    );
    assert_eq!(digest_tree::first_difference(one.path(), one.path()).unwrap(), None);
}

#[test]
fn stations_have_their_extremes_and_means() {
    let lines = "Oslo;-3.1\nRome;20.0\nOslo;1.0\n".repeat(20_000);
    let table = brc::stations(ScratchFile::new(&lines).path()).unwrap();
    assert_eq!(table.to_string(), "{Oslo=-3.1/-1.1/1.0, Rome=20.0/20.0/20.0}");
    let error = brc::stations(ScratchFile::new(format!("{lines}Paris\n")).path()).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "\"Paris\" is not a measurement; one is as \"Tokyo;-3.1\"");
}
