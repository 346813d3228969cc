//! The command `sakiyomi-ballista`, and the commands of its page.

use std::ffi::OsStr;
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use sakiyomi_testing::{Scratch, skipped, wait_until};

use crate::support::{TABLES, free_address, tree};

fn refused(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sakiyomi-ballista")).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn bad_input_is_one_sentence_and_exit_code_2() {
    let scratch = Scratch::new("ballista_arguments");
    let missing = scratch.path("missing");
    let missing = missing.to_str().unwrap();
    let directory = scratch.root().to_str().unwrap();
    for (arguments, text) in [
        (&["executor", "--work-dir", missing][..], "it is not a directory"),
        (&["executor", "--work-dir", directory, "--spill", missing], "--spill"),
        // The port is not refused.
        (
            &["executor", "--work-dir", directory, "--bind", "127.0.0.1:65535", "--scheduler", "127.0.0.1:1"],
            "Could not connect to scheduler",
        ),
        (&["executor", "--work-dir", directory, "--bind", "0.0.0.0:50060"], "with --external-host"),
        (&["executor", "--work-dir", directory, "--bind", "[::]:50060"], "with --external-host"),
        (&["executor", "--work-dir", directory, "--stock", "--method", "read"], "cannot be used with"),
        (
            &["executor", "--work-dir", directory, "--external-host", "a/b"],
            "give a host name or an IP address",
        ),
        (&["query", "--scheduler", "127.0.0.1", "SELECT 1"], "give HOST:PORT"),
        (&["query", "--scheduler", "::1:50050", "SELECT 1"], "give HOST:PORT"),
        (&["query", "--scheduler", "host:0", "SELECT 1"], "give HOST:PORT"),
        (&["query", "--set", "datafusion.no.such=1", "SELECT 1"], "--set datafusion.no.such=1"),
        (&["query", "--scheduler", "127.0.0.1:1", "SELECT 1"], "127.0.0.1:1"),
        (&["scheduler", "--bind", "192.0.2.1:50050"], "the scheduler at 192.0.2.1:50050 has ended"),
    ] {
        let message = refused(arguments);
        assert!(message.contains(text), "{arguments:?}: {message}");
        let sentences = message.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!(sentences, 1, "{arguments:?}: {message}");
    }
    assert!(
        refused(&["executor", "--work-dir", directory, "--method", "mmap"]).contains("give read, pread:N")
    );
    assert!(refused(&["query", "--table", "orders", "SELECT 1"]).contains("give NAME=VALUE"));
}

#[test]
fn a_work_directory_whose_name_is_not_text_is_refused() {
    let scratch = Scratch::new("ballista_names");
    let name = scratch.root().join(OsStr::from_bytes(b"work\xff"));
    std::fs::create_dir(&name).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi-ballista"));
    let output = command.args(["executor", "--work-dir"]).arg(&name).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("Ballista needs a path in UTF-8"), "{error}");
}

/// A process, ended when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn start(arguments: &[&str], listens_at: &str) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi-ballista"));
        let process =
            Process(command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_until("the process listens", || TcpStream::connect(listens_at).is_ok());
        process
    }

    /// Files without a name that it has open.
    fn unnamed_files(&self) -> usize {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.0.id())).unwrap();
        let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        targets.filter(|target| target.to_string_lossy().ends_with("(deleted)")).count()
    }

    fn terminate(&mut self) -> ExitStatus {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.0.wait().unwrap()
    }
}

fn asked(scheduler: &str, statement: &str) -> String {
    let orders = format!("orders={}", TABLES.path("orders.parquet").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi-ballista"));
    let output =
        command.args(["query", "--scheduler", scheduler, "--table", &orders, statement]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_cluster_has_names_and_addresses_of_ipv6() {
    if TcpListener::bind("[::1]:0").is_err() {
        return skipped("a_cluster_has_names_and_addresses_of_ipv6", "this machine has no IPv6");
    }
    let scratch = Scratch::new("ballista_ipv6");
    std::fs::create_dir(scratch.path("work")).unwrap();
    let port = || TcpListener::bind("[::1]:0").unwrap().local_addr().unwrap();
    let (scheduler, bind) = (port().to_string(), port().to_string());
    let _scheduler = Process::start(&["scheduler", "--bind", &scheduler], &scheduler);
    let work = scratch.path("work").to_str().unwrap().to_owned();
    let _executor =
        Process::start(&["executor", "--scheduler", &scheduler, "--bind", &bind, "--work-dir", &work], &bind);
    assert_eq!(asked(&scheduler, "SELECT count(*) AS rows FROM orders"), "rows\n15000\n");
}

#[test]
fn an_executor_removes_its_files_at_its_end_and_no_others_and_only_it_has_spill_files() {
    let scratch = Scratch::new("ballista_removed");
    let work = scratch.path("work");
    std::fs::create_dir_all(work.join("of the user")).unwrap();
    let (scheduler, bind) = (free_address().to_string(), free_address());
    let port = bind.port().to_string();
    // Names are resolved.
    let (bind, named) = (bind.to_string(), scheduler.replace("127.0.0.1", "localhost"));
    let own = work.join(format!("executor-localhost-{port}"));
    let planner = Process::start(&["scheduler", "--bind", &scheduler], &scheduler);
    let mut executor = Process::start(
        &[
            "executor",
            "--scheduler",
            &named,
            "--bind",
            &bind,
            "--external-host",
            "localhost",
            "--work-dir",
            work.to_str().unwrap(),
        ],
        &bind,
    );
    let statement =
        "SELECT o_orderstatus, count(*) AS rows FROM orders WHERE o_orderkey < 0 GROUP BY o_orderstatus";
    // Without rows, the header.
    assert_eq!(asked(&named, statement), "o_orderstatus,rows\n");
    assert_eq!(asked(&named, "SELECT count(*) AS rows FROM orders"), "rows\n15000\n");
    assert!(executor.unnamed_files() > 0);
    assert_eq!(planner.unnamed_files(), 0);
    // A job of which the executor has not heard again.
    std::fs::create_dir_all(own.join("a job/1")).unwrap();
    assert!(executor.terminate().success());
    assert_eq!(tree(&work), ["executor-localhost-".to_owned() + &port, "of the user".to_owned()]);
}

#[test]
fn the_commands_of_the_documentation_run() {
    let scratch = Scratch::new("ballista_docs");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/ballista.md");
    let mut page = std::fs::read_to_string(page).unwrap();
    for port in ["50050", "50060", "50070"] {
        page = page.replace(&format!("127.0.0.1:{port}"), &free_address().to_string());
    }
    let mut servers = Vec::new();
    let mut count = 0;
    for line in page.lines().filter_map(|line| line.strip_prefix("$ ")) {
        if line.starts_with("sakiyomi query gen ") {
            // The command of the root's workspace has tests of its own.
            std::fs::create_dir(scratch.path("tpch")).unwrap();
            for table in ["orders.parquet", "lineitem.parquet"] {
                std::fs::copy(TABLES.path(table), scratch.path("tpch").join(table)).unwrap();
            }
            continue;
        }
        let script = line.replacen("sakiyomi-ballista", "exec \"$BALLISTA\"", 1);
        let mut command = Command::new("sh");
        command.args(["-c", &script]).env("BALLISTA", env!("CARGO_BIN_EXE_sakiyomi-ballista"));
        command.current_dir(scratch.root());
        if line.starts_with("sakiyomi-ballista scheduler") || line.starts_with("sakiyomi-ballista executor") {
            let address = line.split(' ').skip_while(|word| *word != "--bind").nth(1).unwrap();
            let server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            servers.push(Process(server));
            wait_until("the process listens", || TcpStream::connect(address).is_ok());
            continue;
        }
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {errors}");
        if line.contains(" query ") {
            assert!(output.stdout.len() > 40, "{line}");
            assert_eq!(line.contains("--time"), errors.contains(" rows in "), "{errors}");
            count += 1;
        }
    }
    assert_eq!((servers.len(), count), (3, 2));
}
