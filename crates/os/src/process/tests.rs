use super::*;
use sakiyomi_testing::{Scratch, skipped, wait_until};
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn own() -> Process {
    Process::open(std::process::id()).unwrap()
}

fn number_of(file: &File) -> u32 {
    file.as_raw_fd().cast_unsigned()
}

/// A program that is killed at the end of the test.
struct Started(Child);

impl Started {
    fn new(words: &[&str]) -> Started {
        let mut command = Command::new(words[0]);
        Started(command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn process(&self) -> Process {
        Process::open(self.0.id()).unwrap()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_position_follows_what_is_read_and_sought() {
    let scratch = Scratch::new("process_position");
    fs::write(scratch.path("file"), vec![1; 10_000]).unwrap();
    let mut file = File::open(scratch.path("file")).unwrap();
    let process = own();
    let seen = process.descriptor(number_of(&file)).unwrap();
    file.read_exact(&mut [0; 4321]).unwrap();
    let open = seen.query().unwrap();
    assert_eq!((open.position, open.readable, open.writable, open.direct), (4321, true, false, false));
    file.seek(SeekFrom::Start(17)).unwrap();
    assert_eq!(seen.query().unwrap().position, 17);
    let identity = process.identity(number_of(&file)).unwrap();
    assert_eq!((identity.kind, identity.size, identity.inode), (Kind::Regular, 10_000, open.inode));
    assert!(process.open_files().unwrap().contains(&number_of(&file)));
    assert_eq!(process.name_of(number_of(&file)).unwrap(), scratch.path("file").canonicalize().unwrap());
    drop(file);
}

#[test]
fn a_number_that_means_another_file_is_seen() {
    let scratch = Scratch::new("process_reuse");
    let open = |name: &str, size: usize| {
        fs::write(scratch.path(name), vec![1; size]).unwrap();
        File::options().read(true).write(true).open(scratch.path(name)).unwrap()
    };
    let (first, second) = (open("first", 10), open("second", 20));
    let process = own();
    let seen = process.descriptor(number_of(&first)).unwrap();
    let before = seen.query().unwrap();
    let identity = process.identity(number_of(&first)).unwrap();
    let mut first = OwnedFd::from(first);
    rustix::io::dup2(&second, &mut first).unwrap();
    let after = seen.query().unwrap();
    assert_ne!(before.inode, after.inode);
    assert!(after.writable);
    assert!(!identity.is_same(&process.identity(first.as_raw_fd().cast_unsigned()).unwrap()));
}

#[test]
fn a_file_without_a_name_can_be_reopened_for_reading() {
    let scratch = Scratch::new("process_reopen");
    fs::write(scratch.path("file"), b"content").unwrap();
    let file = File::open(scratch.path("file")).unwrap();
    fs::remove_file(scratch.path("file")).unwrap();
    let mut again = own().reopen(number_of(&file)).unwrap();
    let mut text = String::new();
    again.read_to_string(&mut text).unwrap();
    assert_eq!(text, "content");
    assert!(again.write(b"x").is_err());
}

#[test]
fn children_of_all_threads_are_found() {
    let started = std::thread::spawn(|| {
        let started = Started::new(&["cat"]);
        let mut children = Vec::new();
        own().children(&own().threads().unwrap(), &mut children);
        assert!(children.contains(&started.0.id()), "{children:?}");
        started
    });
    started.join().unwrap();
}

#[test]
fn a_process_says_what_it_is_and_that_it_has_ended() {
    let mut started = Started::new(&["cat", "-", "a b"]);
    let mut process = started.process();
    // Between fork and exec it is still the test program.
    wait_until("the command line", || {
        process.command_line().unwrap().first().is_some_and(|name| name == "cat")
    });
    assert_eq!(process.command_line().unwrap(), ["cat", "-", "a b"]);
    let (before, here) = (own().incarnation().unwrap(), process.incarnation().unwrap());
    assert!(before != here || here == 0);
    started.0.stdin.as_mut().unwrap().write_all(&[7; 1000]).unwrap();
    wait_until("bytes read", || process.bytes_read().unwrap() >= 1000);
    assert!(process.is_alive());
    started.0.kill().unwrap();
    wait_until("its end", || !process.is_alive());
    started.0.wait().unwrap();
    assert!(process.threads().is_err() && process.bytes_read().is_err() && !process.is_alive());
}

#[test]
fn a_process_is_not_mistaken_for_another_with_its_number() {
    let last = "/proc/sys/kernel/ns_last_pid";
    let mut first = Started::new(&["cat"]);
    let mut process = first.process();
    let number = process.number();
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    for _ in 0..100 {
        if let Err(error) = fs::write(last, (number - 1).to_string()) {
            return skipped("process numbers", format_args!("{last}: {error}"));
        }
        let second = Started::new(&["cat"]);
        if second.0.id() == number {
            assert!(Process::open(number).unwrap().is_alive());
            assert!(!process.is_alive() && process.command_line().map_or(true, |words| words.is_empty()));
            return;
        }
    }
    skipped("process numbers", "the number did not come up again");
}

#[test]
fn what_a_child_got_is_counted_to_the_process_that_has_waited_for_it_and_not_to_its_thread() {
    let scratch = Scratch::new("process_got");
    fs::write(scratch.path("file"), vec![1; 1 << 20]).unwrap();
    let script = format!("cat {}; read line", scratch.path("file").display());
    let started = Started::new(&["sh", "-c", &script]);
    let mut process = started.process();
    wait_until("the child's end", || process.bytes_read().unwrap() >= 1 << 20);
    let by_itself = process.bytes_read_by_first_thread().unwrap();
    assert!(by_itself > 0 && by_itself < 1 << 20, "{by_itself}");
}

#[test]
fn a_thread_that_computes_runs_and_one_that_waits_for_a_pipe_sleeps_without_io() {
    let started = Started::new(&["cat"]);
    let process = started.process();
    let thread = process.thread(process.number()).unwrap();
    wait_until("sleep", || thread.sleeps().unwrap() == Sleeps::Otherwise);
    let before = thread.times().unwrap();
    std::thread::sleep(Duration::from_millis(30));
    let after = thread.times().unwrap();
    assert!(after.slept - before.slept >= Duration::from_millis(29), "{before:?} {after:?}");
    assert_eq!(after.ran, before.ran);

    let own = own().thread(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
    wait_until("time on a core", || own.times().unwrap().ran >= Duration::from_millis(2));
    assert_eq!(own.sleeps().unwrap(), Sleeps::Not);
}

#[test]
fn the_call_that_a_program_reads_in_is_seen_with_what_it_asks_for() {
    let started = Started::new(&["cat"]);
    let process = started.process();
    if let Err(error) = fs::read("/proc/self/syscall") {
        return skipped("read calls", error);
    }
    // Waits until it is `cat` reading its standard input, and not the shell or the loader.
    wait_until("its call", || process.read_call(process.number()).is_some_and(|call| call.bytes > 1000));
    assert_eq!(process.read_call(process.number()).unwrap().file, 0);
    let file = |text| ReadCall::of(text).map(|call| (call.file, call.bytes, call.offset));
    let text = format!("{} 0x4 0x7f3a572e5000 0x20000 0x0 0x0 0x0 0x7fff 0x7f3a", libc::SYS_read);
    assert_eq!(file(&text), Some((4, 0x20000, None)));
    let text = format!("{} 0x4 0x7f3a572e5000 0x20000 0x5000 0x0 0x0 0x7fff 0x7f3a", libc::SYS_pread64);
    assert_eq!(file(&text), Some((4, 0x20000, Some(0x5000))));
    let other = format!("{} 0x4 0x7f3a572e5000 0x20000 0x0 0x0 0x0 0x7fff 0x7f3a", libc::SYS_write);
    assert!(
        [&*other, "running", "-1 0x7fff 0x7f3a", "", "0 0x4"].into_iter().all(|text| file(text).is_none())
    );
}

#[test]
fn files_of_a_directory_come_in_its_order_and_without_its_directories() {
    let scratch = Scratch::new("process_directory");
    (0..50).for_each(|index| fs::write(scratch.path(&format!("file{index}")), "x").unwrap());
    fs::create_dir(scratch.path("directory")).unwrap();
    let directory = open_directory(scratch.root()).unwrap();
    let order: Vec<OsString> = fs::read_dir(scratch.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name != "directory")
        .collect();
    let found = entries(&directory).unwrap();
    assert_eq!(found.iter().map(|entry| entry.name.clone()).collect::<Vec<_>>(), order);
    for entry in found {
        let identity = identity_at(directory.as_fd(), Path::new(&entry.name)).unwrap();
        assert_eq!((identity.inode, identity.kind), (entry.inode, Kind::Regular));
        assert_eq!(
            super::identity(open_beside(&directory, Path::new(&entry.name)).unwrap()).unwrap(),
            identity
        );
    }
    assert!(open_beside(&directory, Path::new("missing")).is_err());
}

#[test]
fn a_program_begins_when_it_may_in_the_process_that_was_named() {
    use super::command::{Running, Signals, Status};
    // Blocks signals only in this thread, which ends with the test.
    let signals = Signals::hold().unwrap();
    let mut named = 0;
    let words = ["sh", "-c", "exit 7"].map(OsString::from);
    let running = Running::start_after(&words, &signals, |number| {
        named = number;
        // It is not the shell yet.
        let mine = own().command_line().unwrap();
        Process::open(number).unwrap().command_line().unwrap() == mine
    });
    let running = running.unwrap();
    assert_eq!(running.number(), named);
    running.wait(&signals).unwrap();
    assert_eq!(running.end().unwrap().status, Status::Code(7));
}

#[test]
fn a_program_that_may_not_begin_does_nothing() {
    use super::command::{Running, Signals, StartError};
    let scratch = Scratch::new("process_withheld");
    let signals = Signals::hold().unwrap();
    let words = ["touch".into(), scratch.path("file").into_os_string()];
    let withheld = Running::start_after(&words, &signals, |_| false).unwrap_err();
    assert!(matches!(withheld, StartError::Withheld(_)), "{withheld}");
    assert_eq!(scratch.entries(), 0);
    let missing = Running::start_after(&["/nowhere/at/all".into()], &signals, |_| true).unwrap_err();
    assert!(matches!(missing, StartError::NotFound(_)), "{missing}");
}
