//! The C interface from outside: programs in C and C++, the header beside the code, and the installed library.

mod compile;
mod examples;
mod header;
mod install;
mod layout;
mod rates;

use sakiyomi_testing::ScratchFile;

use compile::Program;

#[test]
fn every_function_does_what_the_header_says() {
    let bytes: Vec<u8> = (0..3_000_000).map(|at| (at % 251) as u8).collect();
    let file = ScratchFile::new(bytes);
    Program::each_way("every_function", "tests/calls.c", [file.path()], |output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}

#[test]
fn every_function_of_tasks_does_what_the_header_says() {
    Program::each_way("every_function_of_tasks", "tests/tasks.c", ["20000"], |output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}

#[test]
fn a_simulation_does_what_the_header_says() {
    // The format of DiskSim: time in ms, device, block, blocks, whether it is a read.
    let lines: String = (0..40_000_u64)
        .map(|index| format!("{}.5 0 {} 8 {}\n", index * 12, index * 7919 % 9_000_000 * 8, index % 2))
        .collect();
    let trace = ScratchFile::new(lines);
    Program::each_way("a_simulation", "tests/simulation.c", [trace.path()], |output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}
