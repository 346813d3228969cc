//! The object store, beside the one that it wraps.

use std::ops::Range;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResultPayload, ObjectStore, ObjectStoreExt, PutPayload};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_datafusion::store::{LocalStore, StoreOptions};
use sakiyomi_io::{Access, EngineKind, EngineSpec};
use sakiyomi_testing::Scratch;

use crate::spill::content;

/// Lengths of the files: nothing, less than a block, whole blocks, more.
const LENGTHS: [usize; 6] = [0, 1, 4095, 8192, 70_000, 3_000_001];

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// A directory with files, and the stores of it: ours with several settings, and the wrapped one.
fn stores(scratch: &Scratch) -> (Vec<LocalStore>, LocalFileSystem) {
    let mut random = Pcg64::seed_from_u64(1);
    std::fs::create_dir(scratch.path("deep")).unwrap();
    for length in LENGTHS {
        let bytes = content(&mut random, length);
        scratch.file(&format!("deep/{length}"), &bytes);
        scratch.file(&format!("{length}.data"), &bytes);
    }
    let files = || LocalFileSystem::new_with_prefix(scratch.root()).unwrap();
    let small =
        StoreOptions { memory: 1 << 20, block: 10_000, ahead: 3, gap: 100, ..StoreOptions::default() };
    let direct = StoreOptions { access: Access::Direct, ..StoreOptions::default() };
    let uring = StoreOptions { engine: EngineSpec::usual(EngineKind::Uring), ..small };
    let all = [StoreOptions::default(), small, direct, uring];
    // A sandbox may not have all engines.
    (all.into_iter().filter_map(|options| LocalStore::new(files(), options).ok()).collect(), files())
}

/// A result, or the kind of its error.
fn outcome<T>(result: Result<T, object_store::Error>) -> Result<T, String> {
    result.map_err(|error| match error {
        object_store::Error::NotFound { .. } => "not found".into(),
        object_store::Error::Precondition { .. } => "precondition".into(),
        object_store::Error::NotModified { .. } => "not modified".into(),
        other => other.to_string(),
    })
}

#[test]
fn random_ranges_are_those_of_the_wrapped_store() {
    let scratch = Scratch::new("store_ranges");
    let (stores, oracle) = stores(&scratch);
    let mut random = Pcg64::seed_from_u64(2);
    runtime().block_on(async {
        for round in 0..150 {
            let length = LENGTHS[random.next_u64() as usize % LENGTHS.len()] as u64;
            let path = Path::from(format!("deep/{length}"));
            let mut range = || -> Range<u64> {
                // Some begin or end beyond the file, some are empty, some overlap.
                let start = random.next_u64() % (length + 2);
                let end = start + [random.next_u64() % 300, random.next_u64() % (length + 1)][round % 2];
                start..if random.next_u64().is_multiple_of(20) { end } else { end.min(length).max(start) }
            };
            let ranges: Vec<Range<u64>> = (0..round % 9).map(|_| range()).collect();
            let expected = outcome(oracle.get_ranges(&path, &ranges).await);
            for store in &stores {
                let found = outcome(store.get_ranges(&path, &ranges).await);
                assert!(found == expected, "{store}: {ranges:?} of {length}: {:?}", found.err());
                for range in ranges.iter().take(2) {
                    let expected = outcome(oracle.get_range(&path, range.clone()).await);
                    assert_eq!(outcome(store.get_range(&path, range.clone()).await), expected);
                }
            }
        }
    });
}

#[test]
fn whole_files_and_parts_are_streams_with_the_same_bytes_and_properties() {
    let scratch = Scratch::new("store_streams");
    let (stores, oracle) = stores(&scratch);
    runtime().block_on(async {
        for length in LENGTHS {
            let path = Path::from(format!("{length}.data"));
            let end = length as u64;
            let ranges = [
                None,
                Some(GetRange::Bounded(0..1)),
                Some(GetRange::Bounded(end / 3..end / 2 + 5000)),
                Some(GetRange::Offset(end / 2)),
                Some(GetRange::Offset(end + 1)),
                Some(GetRange::Suffix(777)),
            ];
            for range in ranges {
                let options = || GetOptions { range: range.clone(), ..GetOptions::default() };
                let expected = match outcome(oracle.get_opts(&path, options()).await) {
                    Ok(result) => {
                        Ok((result.range.clone(), result.meta.clone(), result.bytes().await.unwrap()))
                    }
                    Err(error) => Err(error),
                };
                for store in &stores {
                    let found = match outcome(store.get_opts(&path, options()).await) {
                        Ok(result) => {
                            let (range, meta) = (result.range.clone(), result.meta.clone());
                            let is_stream = matches!(result.payload, GetResultPayload::Stream(_));
                            assert!(is_stream || range.is_empty(), "{store} reads {range:?} itself");
                            Ok((range, meta, result.bytes().await.unwrap()))
                        }
                        Err(error) => Err(error),
                    };
                    assert!(found == expected, "{store}: {range:?} of {length}");
                }
            }
        }
    });
}

#[test]
fn missing_files_directories_and_conditions_are_those_of_the_wrapped_store() {
    let scratch = Scratch::new("store_errors");
    let (stores, oracle) = stores(&scratch);
    runtime().block_on(async {
        let path = Path::from("70000.data");
        let meta = oracle.head(&path).await.unwrap();
        let tag = meta.e_tag.clone();
        let other = Some("another".to_owned());
        let conditions = [
            GetOptions { if_match: tag.clone(), ..GetOptions::default() },
            GetOptions { if_match: other.clone(), ..GetOptions::default() },
            GetOptions { if_none_match: tag, ..GetOptions::default() },
            GetOptions { if_none_match: other, ..GetOptions::default() },
            GetOptions { if_modified_since: Some(meta.last_modified), ..GetOptions::default() },
            GetOptions { if_unmodified_since: Some(meta.last_modified), ..GetOptions::default() },
            GetOptions { head: true, ..GetOptions::default() },
        ];
        for store in &stores {
            for options in &conditions {
                let expected =
                    outcome(oracle.get_opts(&path, options.clone()).await).map(|result| result.meta);
                let found = outcome(store.get_opts(&path, options.clone()).await).map(|result| result.meta);
                assert_eq!(found, expected, "{options:?}");
            }
            for path in ["absent", "deep", "deep/absent"].map(Path::from) {
                let expected = outcome(oracle.get(&path).await.map(drop));
                assert_eq!(outcome(store.get(&path).await.map(drop)), expected, "{path}");
                let expected = outcome(oracle.get_ranges(&path, &[0..1, 2..3]).await);
                assert_eq!(outcome(store.get_ranges(&path, &[0..1, 2..3]).await), expected, "{path}");
            }
        }
    });
}

#[test]
fn files_are_listed_written_copied_and_deleted_as_by_the_wrapped_store() {
    let scratch = Scratch::new("store_writes");
    let (stores, oracle) = stores(&scratch);
    runtime().block_on(async {
        for store in &stores {
            for prefix in [None, Some(Path::from("deep")), Some(Path::from("absent"))] {
                let sorted = |mut found: Vec<object_store::ObjectMeta>| {
                    found.sort_by(|a, b| a.location.cmp(&b.location));
                    found
                };
                let expected: Vec<_> = oracle.list(prefix.as_ref()).try_collect().await.unwrap();
                let found: Vec<_> = store.list(prefix.as_ref()).try_collect().await.unwrap();
                assert_eq!(sorted(found), sorted(expected));
                let expected = oracle.list_with_delimiter(prefix.as_ref()).await.unwrap();
                let found = store.list_with_delimiter(prefix.as_ref()).await.unwrap();
                assert_eq!(found.common_prefixes, expected.common_prefixes);
                assert_eq!(sorted(found.objects), sorted(expected.objects));
            }
            let (new, copy) = (Path::from("new/file"), Path::from("new/copy"));
            store.put(&new, PutPayload::from_static(b"written")).await.unwrap();
            store.copy(&new, &copy).await.unwrap();
            store.delete(&new).await.unwrap();
            assert!(matches!(store.get(&new).await, Err(object_store::Error::NotFound { .. })));
            assert_eq!(
                store.get(&copy).await.unwrap().bytes().await.unwrap(),
                Bytes::from_static(b"written")
            );
            store.rename(&copy, &new).await.unwrap();
            assert_eq!(store.get_range(&new, 2..4).await.unwrap(), Bytes::from_static(b"it"));
            store.delete(&new).await.unwrap();
        }
    });
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_an_error_and_never_other_bytes() {
    let scratch = Scratch::new("store_shrinks");
    let (stores, _) = stores(&scratch);
    runtime().block_on(async {
        for (number, store) in stores.iter().enumerate() {
            let (name, bytes) = (format!("shrinks-{number}"), vec![7; 9 << 20]);
            let path = scratch.file(&name, &bytes);
            let mut stream = store.get(&Path::from(name)).await.unwrap().into_stream();
            let first = stream.try_next().await.unwrap().unwrap();
            assert!(first.iter().all(|&byte| byte == 7));
            std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(6 << 20).unwrap();
            let rest: Result<Vec<Bytes>, _> = stream.try_collect().await;
            let error = rest.unwrap_err().to_string();
            assert!(error.contains("shrank while it was read"), "{error}");
        }
    });
}
