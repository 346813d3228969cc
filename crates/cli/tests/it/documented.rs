//! Every `sakiyomi` command in README.md and the pages of docs/ works as the page claims: it is run unchanged, page by
//! page and in order, in a directory with the files that the page assumes.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::explain::ten_reads;
use crate::fuse::can_mount;
use crate::scratch::{Scratch, repository};
use sakiyomi_testing::skipped;

/// Replacements of commands, and the reasons. Everything else is run unchanged.
const INSTEAD: &[(&str, &str, &str)] = &[
    (
        "sakiyomi reproduce --out reproduction",
        "sakiyomi reproduce hitachi2013 --simulate-only --out reproduction",
        "hundreds of simulations",
    ),
    (
        "sakiyomi scenario run scenarios/waseda2006-a.toml",
        "sakiyomi scenario run scenarios/waseda2006-a.toml --vary prefetch.limit=off,16MiB \
         --vary process.gzip.size=0.2GB",
        "hundreds of runs",
    ),
    (
        "sakiyomi scenario run scenarios/cerium2014-second-run.toml",
        "sakiyomi scenario run scenarios/cerium2014-second-run.toml --vary job.wc.size=64MB",
        "gigabytes in small pages",
    ),
    (
        "sakiyomi scenario run scenarios/cerium2014-methods.toml",
        "sakiyomi scenario run scenarios/cerium2014-methods.toml --vary job.wc.size=16MB",
        "32 runs",
    ),
    (
        "sakiyomi scenario run scenarios/cerium2014-cached.toml",
        "sakiyomi scenario run scenarios/cerium2014-cached.toml --vary job.wc.size=64MB",
        "a gigabyte in small pages",
    ),
    (
        "sakiyomi scenario run scenarios/kochi2023-allowance.toml",
        "sakiyomi scenario run scenarios/kochi2023-allowance.toml --repetitions 1 --vary case.computer=PC1 \
         --vary process.target.rate=20 --vary regulate.allowance=1,formula --vary process.target.reads=4000",
        "hundreds of runs",
    ),
    (
        "sakiyomi scenario run scenarios/kochi2023-accuracy.toml",
        "sakiyomi scenario run scenarios/kochi2023-accuracy.toml --repetitions 1 --vary case.computer=PC1 \
         --vary process.target.rate=20 --vary process.target.reads=4000 --out accuracy",
        "hundreds of runs",
    ),
    (
        "sakiyomi scenario run scenarios/kochi2023-release.toml",
        "sakiyomi scenario run scenarios/kochi2023-release.toml --repetitions 1 --vary case.pattern=LS \
         --vary process.target.reads=300",
        "minutes of pauses",
    ),
    (
        "sakiyomi scenario run scenarios/kochi2023-several.toml",
        "sakiyomi scenario run scenarios/kochi2023-several.toml --repetitions 1 --vary case.computer=PC1 \
         --vary process.a.reads=4000",
        "hundreds of runs",
    ),
    (
        "sakiyomi probe . --method read,uring",
        "sakiyomi probe . --method read --size 16MiB --runtime 50ms --repetitions 1 --block 128KiB --no-control-runs",
        "it measures for half a minute",
    ),
    (
        "sakiyomi probe . --op read,write --method read,pread:4",
        "sakiyomi probe . --op read,write --method read,pread:4 --block 64KiB,1MiB --direct --buffered --cached \
         --size 16MiB --runtime 20ms --repetitions 1 --no-control-runs",
        "it measures for a minute",
    ),
    (
        "sakiyomi stream run alerts.toml --snapshot alerts.snapshot --resume",
        "printf '[source.g]\\nfrom = \"generator\"\\nrate = 100\\n[sink.out]\\nto = \"discard\"\\n' > endless.toml && \
         sakiyomi stream run endless.toml --snapshot alerts.snapshot --for 100ms && \
         sakiyomi stream run endless.toml --snapshot alerts.snapshot --resume --for 100ms",
        "a run that has ended leaves no snapshot",
    ),
    ("sakiyomi query calibrate", "sakiyomi query calibrate --glance", "it measures for a minute"),
    (
        "sakiyomi drive fit traces/disksim/hp_c2490a.trace.gz",
        "sakiyomi drive fit traces/disksim/hp_c2490a.trace.gz --drive traces/disksim/hp_c2490a.diskspecs -o fitted.toml \
         --fit-until 20s",
        "it replays the trace thousands of times",
    ),
    (
        "sakiyomi drive fit work.csv.gz",
        "sakiyomi drive show nearline-18tb > mine.toml",
        "the recorded work of a disk is not in the repository",
    ),
    ("sakiyomi drive fit hplajw.csv.gz", "sakiyomi drive fit --help", "the trace is not in the repository"),
    (
        "sakiyomi iorate top /mnt/disk --prometheus --out /var/lib/node_exporter/sakiyomi.prom",
        "sakiyomi iorate top /mnt/disk --prometheus --out sakiyomi.prom --interval 100ms --count 2",
        "it goes on for ever, elsewhere",
    ),
    (
        "sakiyomi iorate calibrate /srv/data",
        "head -c 64M /dev/zero > content && sakiyomi iorate calibrate content --time 1s --profile profile.json",
        "it writes a gigabyte, elsewhere",
    ),
    (
        "sakiyomi daemon start --cgroup /system.slice/batch.service --memory 2GiB",
        "timeout --preserve-status 1 sakiyomi daemon start --cgroup /system.slice/batch.service --memory 2GiB \
         --socket daemon.sock",
        "it goes on for ever",
    ),
    (
        "sakiyomi daemon start",
        "timeout --preserve-status 1 sakiyomi daemon start --socket daemon.sock --cgroup /no/such/group",
        "it goes on for ever, for all programs of the machine",
    ),
    (
        "sakiyomi daemon status",
        "(timeout 30 sakiyomi daemon start --socket daemon.sock --cgroup /no/such/group & daemon=$!; \
         until sakiyomi daemon status --socket daemon.sock; do sleep 0.05; done; kill $daemon)",
        "no daemon runs",
    ),
    (
        "sakiyomi explain --pid 4711 --for 30s",
        "(sleep 9 & sakiyomi explain --pid $! --for 100ms; kill $!)",
        "no such process runs",
    ),
    (
        "sakiyomi explain --save job.rec --out report",
        "sakiyomi explain --save saved.rec --out report -- md5sum big.tar",
        "the recording that the next commands predict from needs root",
    ),
    (
        "sakiyomi daemon unit > /etc/systemd/system/sakiyomi.service",
        "sakiyomi daemon unit > sakiyomi.service",
        "elsewhere",
    ),
];

/// Commands that a page shows failing.
const REFUSED: &[&str] = &["sakiyomi iorate run 90 /mnt/disk -- python3 reader.py"];
/// Returns the lines of code blocks that are sakiyomi commands, without comments; a command that continues on the
/// next line is one.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut fenced = false;
    let mut unfinished: Option<String> = None;
    for line in page.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if !fenced && !line.starts_with("    ") {
            continue;
        }
        let line = line.split("  #").next().unwrap_or(line).trim();
        let line = line.split(" # ").next().unwrap_or(line).trim();
        let line = line.strip_prefix("$ ").unwrap_or(line);
        let whole = match unfinished.take() {
            Some(begun) => format!("{begun} {line}"),
            None if line.starts_with("sakiyomi ") => line.to_owned(),
            None => continue,
        };
        match whole.strip_suffix('\\') {
            Some(begun) => unfinished = Some(begun.trim_end().to_owned()),
            None => commands.push(whole),
        }
    }
    commands
}

/// Pages whose commands are run by the tests of a workspace of their own, which builds the programs they need.
const TESTED_ELSEWHERE: &[&str] = &["how-to-ballista", "how-to-datafusion"];

/// Returns the pages that are tested here: name and text.
fn pages() -> Vec<(String, String)> {
    let docs = PathBuf::from(repository("docs"));
    let mut paths = vec![PathBuf::from(repository("README.md"))];
    for kind in ["tutorial", "how-to", "reference", "explanation", "results"] {
        paths.extend(fs::read_dir(docs.join(kind)).unwrap().map(|entry| entry.unwrap().path()));
    }
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "md"));
    paths.sort();
    // A page is named after its directory, too: several directories have one about the same command.
    let name = |path: &Path| {
        let of_docs = path.strip_prefix(&docs).unwrap_or(Path::new("README.md"));
        of_docs.with_extension("").to_str().unwrap().replace('/', "-")
    };
    paths.retain(|path| !TESTED_ELSEWHERE.contains(&&*name(path)));
    paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// Returns a directory as the pages assume it.
fn prepared(page: &str) -> Scratch {
    let scratch = Scratch::new(&format!("documented-{page}"));
    for name in ["traces", "scenarios", "README.md"] {
        symlink(fs::canonicalize(repository(name)).unwrap(), scratch.0.join(name)).unwrap();
    }
    for name in ["bin", "files", "disk"] {
        fs::create_dir(scratch.0.join(name)).unwrap();
    }
    symlink(env!("CARGO_BIN_EXE_sakiyomi"), scratch.0.join("bin/sakiyomi")).unwrap();
    let text = "an error, a warning and nothing else\n".repeat(20_000);
    for name in ["big.tar", "big.txt", "log.txt", "files/file", "files/big.tar"] {
        scratch.file(name, &text);
    }
    let line = "10.0.0.1 - - [23/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 500 12 \"-\" \"-\"\n";
    scratch.file("access.log", line.repeat(100));
    let pipeline =
        "[source.log]\nfrom = \"file:access.log\"\nformat = \"combined\"\n[sink.out]\nto = \"stdout\"\n";
    scratch.file("alerts.toml", pipeline);
    // A log that is followed, and an aggregate that another engine can continue.
    scratch.file("visits.json", "{\"t\":1700000000000,\"user\":\"a\"}\n".repeat(100));
    let pipeline = "[source.visits]\nfrom = \"tail:visits.json\"\nstart = \"beginning\"\nformat = \"json\"\n\
                    columns = { t = \"timestamp(ms)\", user = \"text\" }\nevent_time = \"t\"\ncost = \"1us\"\n\
                    [[step]]\nop = \"aggregate\"\nby = \"user\"\nwindow = \"tumbling:1min\"\n\
                    compute = \"count(*) AS n\"\n\
                    [sink.out]\nto = \"file:visits-out.json\"\nappend = true\nformat = \"json\"\n";
    scratch.file("visits.toml", pipeline);
    // The program with which pages read a mount; they describe what it does, not how.
    let reader = "#!/bin/sh\nexec dd if=disk/file of=/dev/null bs=4k count=5 iflag=direct status=none\n";
    scratch.file("bin/python3", reader);
    scratch.file("job.rec", ten_reads().to_string());
    // A recording of a disk.
    let row = |number: u64| {
        format!(
            "{},read,{},4096,9000000,{}\n",
            number * 20_000_000,
            number * 7_340_032,
            number * 20_000_000 + 1000
        )
    };
    let rows: String = (0..40).map(row).collect();
    scratch
        .file("work.csv.gz", format!("time_ns,op,offset_bytes,length_bytes,response_ns,started_ns\n{rows}"));
    scratch.file("job.sh", "#!/bin/sh\ncat files/* > /dev/null\n");
    for name in ["bin/python3", "job.sh"] {
        fs::set_permissions(scratch.0.join(name), Permissions::from_mode(0o755)).unwrap();
    }
    scratch
}

/// Returns the command in a shell, as it is typed.
fn typed(scratch: &Scratch, line: &str) -> Command {
    let path = format!("{}:{}", scratch.0.join("bin").display(), std::env::var("PATH").unwrap());
    let line = line.replace("/mnt/disk", "disk").replace("/mnt/far", "disk");
    let mut command = Command::new("timeout");
    // Its calibrations are read again, but not those of other tests.
    command.env("TMPDIR", &scratch.0);
    command.env("XDG_STATE_HOME", scratch.0.join("state"));
    command.env("XDG_CACHE_HOME", scratch.0.join("cache"));
    command.args(["-s", "KILL", "500", "bash", "-c"]).arg(line).current_dir(&scratch.0).env("PATH", path);
    command.stdin(Stdio::null());
    command
}

/// A server that lasts until the next one, or until the end of its page.
struct Server(Child);

impl Server {
    fn start(scratch: &Scratch, line: &str) -> Server {
        let mut process = typed(scratch, &format!("exec {line}"));
        let mut process = process.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let said: Vec<String> =
            lines.map(Result::unwrap).take_while(|line| !line.starts_with("listening on")).collect();
        assert!(process.try_wait().unwrap().is_none(), "{line}: {said:?}");
        Server(process)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The signal that `timeout` passes on.
        let _ = Command::new("kill").args(["-s", "TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

/// Returns whether a command that needs a program of others can run here.
fn has_program(line: &str) -> bool {
    let Some((_, command)) = line.split_once(" -- ").filter(|_| line.starts_with("sakiyomi serve ")) else {
        return true;
    };
    let program = command.split(' ').next().unwrap_or_default();
    let is_there = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
    if !is_there.status.success() {
        skipped(&format!("`{line}`"), format!("{program} is not installed"));
    }
    is_there.status.success()
}

/// A mount that lasts until the next one, or until the end of its page.
struct Mount<'a> {
    scratch: &'a Scratch,
    process: Child,
}

impl Mount<'_> {
    fn start<'a>(scratch: &'a Scratch, line: &str) -> Mount<'a> {
        let mut process = typed(scratch, &format!("exec {line}"));
        let mut process = process.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let said: Vec<String> =
            lines.map(Result::unwrap).take_while(|line| !line.starts_with("mounted on")).collect();
        assert!(process.try_wait().unwrap().is_none(), "{line}: {said:?}");
        Mount { scratch, process }
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let ended =
            typed(self.scratch, "sakiyomi umount disk").output().is_ok_and(|done| done.status.success());
        if !ended {
            let _ = self.process.kill();
            let _ = Command::new("umount").arg("-l").arg(self.scratch.0.join("disk")).status();
        }
        let _ = self.process.wait();
    }
}

#[test]
fn every_command_on_every_page_can_be_typed() {
    let mountable = can_mount("mounts that pages show");
    let mut used = vec![false; INSTEAD.len()];
    let mut failures = Vec::new();
    for (page, text) in pages() {
        let scratch = prepared(&page);
        let mut mount: Option<Mount<'_>> = None;
        let mut server: Option<Server> = None;
        for command in commands(&text) {
            let instead = INSTEAD.iter().position(|(begin, ..)| command.starts_with(begin));
            let line = instead.map_or(command.as_str(), |index| {
                used[index] = true;
                INSTEAD[index].1
            });
            if line.starts_with("sakiyomi mount ") {
                drop(mount.take());
                mount = mountable.then(|| Mount::start(&scratch, line));
                continue;
            }
            if line.starts_with("sakiyomi serve ") {
                drop(server.take());
                if !line.contains(" -- ") {
                    server = Some(Server::start(&scratch, line));
                    continue;
                }
            }
            if !mountable && line.contains("/mnt/") || !has_program(line) {
                continue;
            }
            let output = typed(&scratch, line).output().unwrap();
            if output.status.success() == REFUSED.contains(&command.as_str()) {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                failures.push(format!("{page}: {command}: {}\n{said}", output.status));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    for ((command, ..), used) in INSTEAD.iter().zip(used) {
        assert!(used, "no page shows {command}");
    }
}

#[test]
fn commands_are_found_in_both_kinds_of_block() {
    let page = "text\n\n    sakiyomi wc a  # words\n    sakiyomi sweep t \\\n        --vary k=1\n\n```sh\nsakiyomi doctor\nls\n```\nsakiyomi is\n";
    assert_eq!(commands(page), ["sakiyomi wc a", "sakiyomi sweep t --vary k=1", "sakiyomi doctor"]);
}
