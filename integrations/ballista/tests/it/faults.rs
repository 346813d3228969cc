//! Writes that fail, and executors that end: statements end with the right rows or with one sentence.

use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use sakiyomi_ballista::cluster::NodeOptions;
use sakiyomi_ballista::shuffle::{Shuffle, ShuffleOptions};
use sakiyomi_io::engine::{self, Completion, Engine, EngineThreads, Op, OpKind};
use sakiyomi_io::{EngineKind, EngineSpec};
use sakiyomi_testing::{Scratch, wait_until};

use crate::support::{Cluster, TABLES, free_address, node, node_with, rows, tree};

const STATEMENT: &str = include_str!("../../queries/q9.sql");
const SHUFFLED: [(&str, &str); 2] = [
    ("ballista.optimizer.broadcast_join_threshold_bytes", "0"),
    ("ballista.optimizer.broadcast_join_threshold_rows", "0"),
];

/// An engine whose writes fail after a number of them, with a given error.
struct Failing {
    inner: Box<dyn Engine>,
    left: Arc<AtomicI64>,
    errno: i32,
    failed: Arc<AtomicU64>,
}

impl Engine for Failing {
    fn free_slots(&self) -> usize {
        self.inner.free_slots()
    }

    fn submit(&mut self, op: Op) {
        self.inner.submit(op);
    }

    fn reap(&mut self, at_least: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        let known = completions.len();
        self.inner.reap(at_least, completions)?;
        for completion in &mut completions[known..] {
            if completion.op.kind == OpKind::Write && self.left.fetch_sub(1, Ordering::Relaxed) <= 0 {
                completion.result = Err(io::Error::from_raw_os_error(self.errno));
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn threads(&self) -> EngineThreads {
        self.inner.threads()
    }
}

/// `EIO` and `ENOSPC`.
const ERRORS: [(i32, &str); 2] = [(5, "(os error 5)"), (28, "no room for")];

#[test]
fn a_write_that_fails_ends_the_statement_with_one_sentence_and_leaves_no_file() {
    let spec = EngineSpec::usual(EngineKind::Pread);
    for (errno, text) in ERRORS {
        for limit in ["30000", "0"] {
            let scratch = Scratch::new("ballista_write_errors");
            std::fs::create_dir(scratch.path("work")).unwrap();
            let failed = Arc::new(AtomicU64::new(0));
            let left = Arc::new(AtomicI64::new(40));
            let failing = || Failing {
                inner: engine::open(spec, 64 << 10, None).unwrap().engine,
                left: Arc::clone(&left),
                errno,
                failed: Arc::clone(&failed),
            };
            let options = ShuffleOptions { block: 64 << 10, ..ShuffleOptions::default() };
            let shuffle = Shuffle::over(Box::new(failing()), Box::new(failing()), options).unwrap();
            let node = node(&scratch).with_shuffle(&shuffle);
            let cluster = Cluster::start(&[(&scratch.path("work"), Some(&node))]);
            let limit = ("ballista.shuffle.sort_based.memory_limit_per_task_bytes", limit);
            let error = cluster.query(STATEMENT, &[SHUFFLED[0], SHUFFLED[1], limit]).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
            // Ballista's frame around the sentence, which is there once.
            assert_eq!(error.matches(text).count(), 1, "{error}");
            assert!(failed.load(Ordering::Relaxed) > 0);
            // The files that are left are those of tasks that have succeeded. Others may still be ending.
            let count =
                |end: &str| tree(&scratch.path("work")).iter().filter(|path| path.ends_with(end)).count();
            wait_until("each file has its index", || count("data.arrow") == count("data.arrow.index"));
            let others = || {
                let work = scratch.path("work");
                let is_known =
                    |path: &str| path.ends_with("data.arrow") || path.ends_with("data.arrow.index");
                let files = tree(&work).into_iter().filter(|path| work.join(path).is_file());
                files.filter(|path| !is_known(path)).count()
            };
            wait_until("no other file is left", || others() == 0);
        }
    }
}

#[test]
fn a_work_directory_that_cannot_be_written_is_one_sentence() {
    let scratch = Scratch::new("ballista_no_directory");
    // A file where the directory of jobs should be.
    let node = node(&scratch);
    let cluster = Cluster::start(&[(&scratch.file("work", "no directory"), Some(&node))]);
    let error = cluster.query(STATEMENT, &SHUFFLED).unwrap_err().to_string();
    assert!(error.contains("cannot create the directory") && error.contains("os error 20"), "{error}");
}

#[test]
fn statements_are_right_while_all_memory_is_in_use() {
    let scratch = Scratch::new("ballista_no_memory");
    std::fs::create_dir(scratch.path("work")).unwrap();
    let shuffle = ShuffleOptions {
        memory: 0,
        write_memory: 1,
        read_memory: 1,
        block: 64 << 10,
        ahead: 1,
        ..ShuffleOptions::default()
    };
    let stock = Scratch::new("ballista_no_memory_stock");
    let expected = rows(&Cluster::start(&[(stock.root(), None)]).query(STATEMENT, &[]).unwrap());
    let node = node_with(&scratch, NodeOptions { shuffle, ..NodeOptions::default() });
    let cluster = Cluster::start(&[(&scratch.path("work"), Some(&node))]);
    assert_eq!(rows(&cluster.query(STATEMENT, &SHUFFLED).unwrap()), expected);
    assert!(node.shuffle().stats().plain_files > 0, "{:?}", node.shuffle().stats());
}

/// A process of the command, ended when it is dropped.
struct Process(Child);

impl Process {
    fn start(arguments: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi-ballista"));
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        Process(command.spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One of these statements runs when its executor is killed, also on a fast machine.
const STATEMENTS_MAX: u32 = 10;

fn listens(address: std::net::SocketAddr) -> bool {
    std::net::TcpStream::connect(address).is_ok()
}

#[test]
fn an_executor_that_is_killed_ends_no_statement_without_an_answer() {
    let scratch = Scratch::new("ballista_killed");
    let scheduler = free_address();
    let address = scheduler.to_string();
    let _scheduler = Process::start(&["scheduler", "--bind", &address, "--executor-timeout", "5"]);
    wait_until("the scheduler listens", || listens(scheduler));
    let executor = |name: &str| {
        let work = scratch.path(name);
        std::fs::create_dir(&work).unwrap();
        let (bind, work) = (free_address(), work.to_str().unwrap().to_owned());
        let arguments = [
            "executor",
            "--scheduler",
            &address,
            "--bind",
            &bind.to_string(),
            "--work-dir",
            &work,
            "--threads",
            "1",
        ];
        let process = Process::start(&arguments);
        wait_until("the executor listens", || listens(bind));
        process
    };
    let _lasting = executor("work1");
    let query = |statement: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi-ballista"));
        command.args(["query", "--scheduler", &address]);
        for (name, value) in SHUFFLED {
            command.args(["--set", &format!("{name}={value}")]);
        }
        for table in ["part", "supplier", "lineitem", "partsupp", "orders", "nation"] {
            command.args([
                "--table",
                &format!("{table}={}", TABLES.path(&format!("{table}.parquet")).display()),
            ]);
        }
        command.arg(statement).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let whole = query(STATEMENT).wait_with_output().unwrap();
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    // A statement may have ended before the executor is killed: then another one is.
    let ended = (0..STATEMENTS_MAX).find_map(|number| {
        let name = format!("killed{number}");
        let killed = executor(&name);
        let mut running = query(STATEMENT);
        let has_written = || tree(&scratch.path(&name)).iter().any(|path| path.contains("data"));
        wait_until("the second executor has written a file, or the statement has ended", || {
            has_written() || running.try_wait().unwrap().is_some()
        });
        let was_running = running.try_wait().unwrap().is_none();
        drop(killed);
        let mut limit = 0;
        while running.try_wait().unwrap().is_none() {
            limit += 1;
            assert!(limit < 1200, "no end within two minutes");
            std::thread::sleep(Duration::from_millis(100));
        }
        let ended = running.wait_with_output().unwrap();
        was_running.then_some(ended)
    });
    let ended = ended.expect("a statement that runs when its executor is killed");
    if ended.status.success() {
        assert_eq!(ended.stdout, whole.stdout);
    } else {
        let error = String::from_utf8(ended.stderr).unwrap();
        assert!(error.starts_with("error: ") && error.lines().count() == 1, "{error}");
    }
    // The other continues to answer.
    let after = query(STATEMENT).wait_with_output().unwrap();
    assert_eq!(after.stdout, whole.stdout, "{}", String::from_utf8_lossy(&after.stderr));
}
