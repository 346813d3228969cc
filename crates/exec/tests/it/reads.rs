//! Blocked reads of many files.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::Mutex;

use sakiyomi_exec::read::blocked_reads;
use sakiyomi_testing::Scratch;

/// Returns the threads of this process with this name.
fn threads_called(name: &str) -> impl Iterator<Item = OsString> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap());
    let name = format!("{name}\n");
    tasks
        .filter(move |task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm == name))
        .map(|task| task.file_name())
}

#[test]
fn many_files_are_read_by_one_engine_in_each_files_order() {
    let scratch = Scratch::new("many_files_one_engine");
    let text = |file: usize| -> Vec<u8> { (0..50_000 + file).map(|at| (at / 100 + file) as u8).collect() };
    let paths: Vec<_> = (0..100).map(|file| scratch.path(&format!("file{file}"))).collect();
    paths.iter().enumerate().for_each(|(file, path)| std::fs::write(path, text(file)).unwrap());
    let threads = Mutex::new(BTreeSet::new());
    let map = |block: &[u8]| {
        threads.lock().unwrap().extend(threads_called("sakiyomi-pread"));
        block.to_vec()
    };
    let mut read = Vec::new();
    let whole = |mut first: Vec<u8>, next: Vec<u8>| {
        first.extend(next);
        first
    };
    let method = "pread:3".parse().unwrap();
    let report = blocked_reads(&paths)
        .block(8192)
        .method(method)
        .map(map)
        .reduce_each(Vec::new, whole, |_, result| {
            read.push(result.expect("every file can be read").0);
            Ok(())
        })
        .unwrap();
    assert!(read.into_iter().eq((0..100).map(text)));
    assert_eq!(report.method, Some(method));
    // The threads of one shared engine, rather than of one per file.
    assert!((1..=3).contains(&threads.into_inner().unwrap().len()));
}
