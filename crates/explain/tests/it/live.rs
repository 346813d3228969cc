//! Recordings of real programs, where the kernel permits it.

use std::ffi::OsString;
use std::process::Command;

use sakiyomi_explain::record::{SampledRecording, Subject, TracedRecorder};
use sakiyomi_explain::recording::{Method, RecordedMachine};
use sakiyomi_explain::{Ledger, Recording, Term};
use sakiyomi_os::process::command::{Running, Signals};
use sakiyomi_testing::{Scratch, skipped};

fn subject(scratch: &Scratch) -> Subject {
    Subject {
        program: vec!["sh".to_owned()],
        places: vec![scratch.path("").clone()],
        machine: RecordedMachine { cores: 2, memory_bytes: 1 << 30 },
        measures_storage: false,
    }
}

/// A shell that sleeps for 0.3 s, and a child that reads a file.
const SCRIPT: &str = "sleep 0.3; cat data > /dev/null";

fn check(recording: &Recording) {
    recording.check().unwrap();
    let ledger = Ledger::of(recording);
    assert_eq!(ledger.sum(|_| true), recording.elapsed_ns);
    let timer = ledger.sum(|term| *term == Term::Timer).as_secs_f64();
    assert!(timer > 0.25 && timer <= recording.elapsed_ns.as_secs_f64(), "{timer} s, {ledger:?}");
    let of_sleep = ledger.entries.iter().find(|entry| entry.term == Term::Timer).unwrap();
    assert_eq!(of_sleep.program, "sleep");
}

#[test]
fn a_traced_program_is_recorded_with_its_children_and_files() {
    let mut recorder = match TracedRecorder::create() {
        Ok(recorder) => Some(recorder),
        Err(why) => return skipped("a_traced_program_is_recorded", why),
    };
    let scratch = Scratch::new("explain_traced");
    std::fs::write(scratch.path("data"), vec![1; 3 << 20]).unwrap();
    let signals = Signals::hold().unwrap();
    let words: Vec<OsString> =
        ["sh", "-c", &format!("cd '{}'; {SCRIPT}", scratch.path("").display())].map(OsString::from).to_vec();
    let mut recording = None;
    let running = Running::start_after(&words, &signals, |process| {
        recording = recorder.take().map(|recorder| recorder.start(&[process], subject(&scratch)).unwrap());
        true
    });
    let running = running.unwrap();
    running.wait(&signals).unwrap();
    let recording = recording.unwrap().finish();
    running.end().unwrap();
    assert_eq!(recording.method, Method::Traced);
    check(&recording);
    assert!(recording.threads.len() >= 3, "{:?}", recording.threads.len());
    let data = recording.files.iter().position(|file| {
        file.name.as_ref().is_some_and(|name| name.ends_with("/data")) && file.size_bytes == Some(3 << 20)
    });
    let data = data.expect("the file that was read is named");
    let read: u64 = recording
        .threads
        .iter()
        .flat_map(|thread| &thread.accesses)
        .filter(|access| access.file.is_some_and(|file| file.0 == data))
        .map(|access| access.length)
        .sum();
    assert!(read >= 3 << 20, "{read}");
}

#[test]
fn a_program_is_sampled_without_rights() {
    let scratch = Scratch::new("explain_sampled");
    std::fs::write(scratch.path("data"), vec![1; 1 << 20]).unwrap();
    let child = Command::new("sh").args(["-c", SCRIPT]).current_dir(scratch.path("")).spawn();
    let mut child = child.unwrap();
    let recording = SampledRecording::start(child.id(), subject(&scratch)).unwrap();
    assert!(child.wait().unwrap().success());
    let recording = recording.finish();
    assert_eq!(recording.method, Method::Sampled);
    check(&recording);
}
