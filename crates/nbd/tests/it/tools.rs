//! The tools of others, where they are installed.

use std::fs;
use std::process::Command;
use std::time::Duration;

use sakiyomi_drive::spec::builtin;
use sakiyomi_nbd::{Address, Options};
use sakiyomi_realtime::EmulatedStorage;
use sakiyomi_testing::skipped;

use crate::client::{Served, served};

/// Runs a command line; `None`, reported, if its program is not installed.
fn run(test: &str, served: &Served, line: &str) -> Option<String> {
    let uri = served.server.address().uri("");
    let line = line.replace("URI", &uri);
    let words: Vec<&str> = line.split('|').map(str::trim).collect();
    let mut program = Command::new("timeout");
    program.args(["-s", "KILL", "120"]).args(&words).current_dir(served.scratch.root());
    // Some of them need a file there.
    program.env("TMPDIR", served.scratch.root());
    let output = program.output().unwrap();
    if output.status.code() == Some(127) {
        skipped(test, format!("{} is not installed", words[0]));
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{line}: {text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

fn drive(_: &sakiyomi_testing::Scratch, options: &mut Options) {
    let spec = Box::new(builtin("deskstar-7k250").unwrap().spec());
    options.storage = Some(EmulatedStorage::Drive(spec));
    options.speed = 1e4;
}

#[test]
fn nbdinfo_sees_the_export_and_its_properties() {
    let test = "nbdinfo_sees_the_export_and_its_properties";
    let disk = served("nbd_info", 1 << 20, drive);
    let Some(text) = run(test, &disk, "nbdinfo | --no-content | URI") else { return };
    for line in [
        "export-size: 1048576 (1M)",
        "can_multi_conn: true",
        "can_fua: true",
        "is_rotational: true",
        "is_read_only: false",
        "base:allocation",
        "block_size_maximum: 33554432",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(run(test, &disk, "nbdinfo | --map | URI").unwrap().contains("hole,zero"));
    assert!(run(test, &disk, "nbdinfo | --list | URI").unwrap().contains("Deskstar"));
}

#[test]
fn nbdcopy_copies_there_and_back() {
    let test = "nbdcopy_copies_there_and_back";
    for buffered in [false, true] {
        let disk = served("nbd_copy", 48 << 20, |_, options| options.buffered = buffered);
        let data: Vec<u8> = (0..48u32 << 20).map(|index| (index >> 9) as u8 ^ (index >> 17) as u8).collect();
        disk.scratch.file("in", &data);
        if run(test, &disk, "nbdcopy | --connections=4 | --flush | in | URI").is_none() {
            return;
        }
        run(test, &disk, "nbdcopy | --connections=4 | URI | out").unwrap();
        assert!(fs::read(disk.scratch.path("out")).unwrap() == data);
        assert!(fs::read(disk.scratch.path("disk")).unwrap() == data);
        assert!(disk.server.finish(Duration::from_secs(5)).unwrap().seen.refused == 0);
    }
}

#[test]
fn qemu_io_and_qemu_img_read_and_write() {
    let test = "qemu_io_and_qemu_img_read_and_write";
    let disk = served("nbd_qemu", 64 << 20, drive);
    let write = "qemu-io | -f | raw | -c | write -P 5 1k 70k | -c | write -z 8k 4k | -c | discard 16k 4k | -c | \
         flush | -c | read -P 5 2k 4k | -c | read -P 0 8k 4k | URI";
    if run(test, &disk, write).is_none() {
        return;
    }
    let text =
        run(test, &disk, "qemu-img | bench | -f | raw | -c | 500 | -d | 16 | -w | -s | 64k | URI").unwrap();
    assert!(text.contains("Run completed"), "{text}");
    run(test, &disk, "qemu-img | convert | -f | raw | -O | raw | URI | copy").unwrap();
    run(test, &disk, "qemu-img | compare | -f | raw | -F | raw | URI | copy").unwrap();
    assert!(run(test, &disk, "qemu-img | map | -f | raw | URI").is_some());
}

#[test]
fn fio_verifies_what_it_has_written() {
    let test = "fio_verifies_what_it_has_written";
    for storage in [false, true] {
        let disk = served("nbd_fio", 16 << 20, |scratch, options| {
            options.address = Address::Unix(scratch.path("socket"));
            if storage {
                drive(scratch, options);
            }
        });
        let line = "fio | --name=verify | --ioengine=nbd | --uri=URI | --rw=randwrite | --bs=4k | --iodepth=16 | \
             --size=16m | --verify=crc32c | --fsync=64 | --do_verify=1 | --output=fio.txt";
        if run(test, &disk, line).is_none() {
            return;
        }
        let text = fs::read_to_string(disk.scratch.path("fio.txt")).unwrap();
        if text.contains("engine nbd not loadable") {
            return skipped(test, "fio has no engine nbd");
        }
        assert!(text.contains("err= 0"), "{text}");
    }
}
