//! Records of every format are whole, each in one call, with its offset.

use super::*;

/// The bytes of each call, with their offset.
fn calls(block: Block<'_>) -> Vec<(u64, Vec<u8>)> {
    vec![(block.offset(), block.to_vec())]
}

fn all<T>(mut first: Vec<T>, next: Vec<T>) -> Vec<T> {
    first.extend(next);
    first
}

/// Divides the bytes of calls into records, whose ends are given.
fn check(
    calls: &[(u64, Vec<u8>)],
    text: &[u8],
    ends: &[usize],
    most: Option<usize>,
) -> Result<(), TestCaseError> {
    let mut at = 0;
    for (offset, bytes) in calls {
        prop_assert_eq!(*offset as usize, at);
        prop_assert!(text[at..].starts_with(bytes), "at {}", at);
        at += bytes.len();
        prop_assert!(at == text.len() || ends.contains(&at), "a call ends at {}", at);
        let inner = ends.iter().filter(|&&end| (at - bytes.len()) < end && end < at).count();
        prop_assert!(most.is_none_or(|most| inner == 0 || bytes.len() <= most), "{} bytes", bytes.len());
    }
    prop_assert_eq!(at, text.len());
    Ok(())
}

fn check_all(
    text: &[u8],
    ends: &[usize],
    most: Option<usize>,
    records: impl Fn(BlockedRead) -> Records,
) -> Result<(), TestCaseError> {
    let scratch = ScratchFile::new(text);
    for way in ways(scratch.path()) {
        let read = || most.map_or(way.clone(), |most| way.clone().block(most));
        let (reduced, _) = records(read()).map_blocks(calls).reduce(Vec::new(), all).unwrap();
        check(&reduced, text, ends, most)?;
        let mut ordered = Vec::new();
        records(read())
            .map_blocks(calls)
            .in_order(|calls| {
                ordered.extend(calls);
                Ok(())
            })
            .unwrap();
        check(&ordered, text, ends, most)?;
    }
    Ok(())
}

/// The ends of lines of CSV by looking at each byte.
fn csv_ends(text: &[u8]) -> Vec<usize> {
    let (mut is_quoted, mut ends) = (false, Vec::new());
    for (at, &byte) in text.iter().enumerate() {
        is_quoted ^= byte == b'"';
        if byte == b'\n' && !is_quoted {
            ends.push(at + 1);
        }
    }
    ends
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn records_that_end_with_a_byte(text in "[a\n]{0,200}", most in prop::option::of(1usize..40)) {
        let ends: Vec<usize> = memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1).collect();
        check_all(text.as_bytes(), &ends, most, |read| read.records(b'\n'))?;
    }

    #[test]
    fn records_of_fixed_length(
        text in prop::collection::vec(any::<u8>(), 0..300), length in 1usize..50, most in prop::option::of(1usize..40),
    ) {
        let ends: Vec<usize> = (1..=text.len() / length).map(|record| record * length).collect();
        check_all(&text, &ends, most, |read| read.records_of_length(length))?;
    }

    #[test]
    fn lines_of_csv_with_quotations(text in "[a,\"\n]{0,200}", most in prop::option::of(1usize..40)) {
        check_all(text.as_bytes(), &csv_ends(text.as_bytes()), most, |read| read.csv_records(b'"'))?;
    }

    #[test]
    fn records_of_a_splitter(text in "[a\n]{0,200}", most in prop::option::of(1usize..40)) {
        let letter = |text: &[u8]| text.iter().position(|&byte| byte == b'a').map(|at| at + 1);
        let ends: Vec<usize> = memchr::memchr_iter(b'a', text.as_bytes()).map(|at| at + 1).collect();
        check_all(text.as_bytes(), &ends, most, |read| read.records_of(letter))?;
    }
}

/// Lines of CSV with quoted line feeds, more than are read at once, for which quotations decide across pieces.
#[test]
fn a_large_file_of_csv_is_the_same_whatever_is_cached() {
    let line = |number: u32| match number % 7 {
        0 => format!("{number},\"a\nb\"\"\n{number}\"\n"),
        1 => format!("\"{}\"\n", "\n".repeat(number as usize % 100)),
        _ => format!("{number},b,{}\n", number % 13),
    };
    let text: Vec<u8> = (0..600_000).flat_map(|number| line(number).into_bytes()).collect();
    let ends = csv_ends(&text);
    let scratch = ScratchFile::new(&text);
    let file = std::fs::File::open(scratch.path()).unwrap();
    file.sync_all().unwrap();
    for cold in [0..0, 0..u64::MAX, 2 << 20..5 << 20] {
        for way in ways(scratch.path()) {
            let _ = drop_pages(&file, cold.clone());
            let ends_of = |block: Block<'_>| vec![(block.offset() + block.len() as u64) as usize];
            let (found, _) =
                way.clone().csv_records(b'"').map_blocks(ends_of).reduce(Vec::new(), all).unwrap();
            assert!(found.iter().all(|end| ends.binary_search(end).is_ok()), "{way:?}");
            let _ = drop_pages(&file, cold.clone());
            let mut written = Vec::new();
            way.csv_records(b'"').map(<[u8]>::to_vec).write_ordered(&mut written).unwrap();
            assert!(written == text);
        }
    }
}

#[test]
fn csv_that_is_given_up_in_the_middle_does_not_hang() {
    let text: Vec<u8> =
        (0..900_000).flat_map(|number: u32| format!("{number},\"\n\"\n").into_bytes()).collect();
    let scratch = ScratchFile::new(&text);
    for way in ways(scratch.path()) {
        make_cold(scratch.path());
        let failing = |block: Block<'_>| if block.offset() > 1 << 20 { Err("enough") } else { Ok(()) };
        way.clone().csv_records(b'"').try_map(failing).reduce((), |(), ()| ()).unwrap_err();
        make_cold(scratch.path());
        way.clone().csv_records(b'"').try_map(failing).in_order(Ok).unwrap_err();
        let event = |_: usize, _: Event<usize>| Ok(Wanted::NextFile);
        way.csv_records(b'"').map(<[u8]>::len).each_in_order(event).unwrap();
    }
}

/// Results after the record that is too long never have their turn; they must not keep the permits that the thread which
/// reads waits for.
#[test]
fn a_record_that_is_too_long_ends_a_read_in_order() {
    let scratch = ScratchFile::new(vec![0; 48 << 20]);
    for round in 0..40 {
        for way in ways(scratch.path()) {
            let read = way.clone().block(1000).record_max(1 << 20).records(b'\n');
            let ended = read.map(<[u8]>::len).in_order(|_| Ok(()));
            assert!(matches!(ended, Err(Error::LongRecord { .. })), "{way:?}, round {round}: {ended:?}");
        }
    }
}
