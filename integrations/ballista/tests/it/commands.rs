//! The command `sakiyomi-ballista`, and the commands of its page.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use sakiyomi_testing::{Scratch, wait_until};

use crate::support::{TABLES, free_address};

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
        (
            &["executor", "--work-dir", directory, "--bind", "127.0.0.1:65535"],
            "the executor also needs the next port",
        ),
        (&["query", "--set", "datafusion.no.such=1", "SELECT 1"], "--set datafusion.no.such=1"),
        (&["query", "--scheduler", "127.0.0.1:1", "SELECT 1"], "error"),
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

/// A process, ended when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
