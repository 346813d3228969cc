//! Spill files on devices that fail, in memory.

use std::io::Write;
use std::sync::Arc;

use datafusion::execution::spill_file::TempFileFactory;
use rand_core::SeedableRng;
use rand_pcg::Pcg64;
use sakiyomi_datafusion::spill::{SpillFactory, SpillOptions};
use sakiyomi_io::background::BackgroundIo;
use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{EngineKind, EngineSpec, Io, IoFile, IoOptions, Spill};
use sakiyomi_query::spill::{Level, SpillCompression};
use sakiyomi_testing::wait_until;

use crate::spill::{content, read, with_watchdog};

/// `EIO` (errno-base.h).
const EIO: i32 = 5;

/// A factory on files of a disk in memory.
fn over(disk: &FakeDisk, files: &[Arc<IoFile>], faults: Faults, level: Level) -> Arc<SpillFactory> {
    let unused = IoOptions { engine: EngineSpec::usual(EngineKind::Null), ..Default::default() };
    let unused = Io::open(&unused).unwrap();
    let spills = files.iter().map(|file| Spill::over(&unused, Arc::clone(file))).collect();
    let io = BackgroundIo::over(disk.engine(3, faults)).unwrap();
    let options =
        SpillOptions { chunk: 64 << 10, compression: SpillCompression::Fixed(level), ..Default::default() };
    SpillFactory::over(io, spills, &options).unwrap()
}

/// The error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Writes bytes to a file and reads them; the error of the first that fails.
fn write_and_read(factory: &SpillFactory, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let file = factory.create_temp_file("test").unwrap();
    let mut writer = file.open_writer().unwrap();
    let mut write = || -> Result<(), String> {
        writer.write_all(bytes).map_err(|error| chain(&error))?;
        writer.finish().map_err(|error| chain(&error))
    };
    write()?;
    read(&*file).map_err(|error| chain(&error))
}

#[test]
fn short_late_and_interrupted_transfers_change_nothing() {
    with_watchdog("spilling to a device with faults", || {
        for seed in 0..20 {
            let disk = FakeDisk::default();
            let file = disk.file(Vec::new(), [1, 512][seed as usize % 2]).unwrap();
            let faults = Faults {
                seed,
                short_of_256: 60,
                interrupted_of_256: 60,
                late_of_256: 100,
                ..Faults::default()
            };
            let factory = over(&disk, &[file], faults, Level::ALL[seed as usize % 4]);
            let bytes = content(&mut Pcg64::seed_from_u64(seed), 900_000);
            assert!(write_and_read(&factory, &bytes).unwrap() == bytes, "seed {seed}");
        }
    });
}

#[test]
fn a_full_disk_is_an_error_that_says_so_and_its_space_is_returned() {
    with_watchdog("spilling to a full disk", || {
        let disk = FakeDisk::default();
        let file = disk.limited_file("small/spill".as_ref(), 512, 300_000).unwrap();
        let factory = over(&disk, &[file], Faults::default(), Level::None);
        let bytes = content(&mut Pcg64::seed_from_u64(1), 900_000);
        let error = write_and_read(&factory, &bytes).unwrap_err();
        assert!(error.contains("no room for small/spill beyond its first"), "{error}");
        wait_until("the last writes to end", || factory.stats().files == 0);
        assert_eq!((factory.stats().files, factory.stats().current_bytes), (0, 0));
    });
}

#[test]
fn directories_are_used_in_turn_while_they_have_room() {
    let disk = FakeDisk::default();
    let small = disk.limited_file("small/spill".as_ref(), 512, 200_000).unwrap();
    let large = disk.limited_file("large/spill".as_ref(), 512, 10_000_000).unwrap();
    let factory = over(&disk, &[small.clone(), large.clone()], Faults::default(), Level::None);
    let bytes = content(&mut Pcg64::seed_from_u64(1), 500_000);
    let written = write_and_read(&factory, &bytes).unwrap();
    assert!(written == bytes);
    assert!(disk.content(&small).len() > 60_000 && disk.content(&large).len() > 200_000);
}

#[test]
fn an_unreadable_or_unwritable_place_is_an_error_with_its_cause() {
    with_watchdog("spilling to a device with a bad place", || {
        let bytes = content(&mut Pcg64::seed_from_u64(1), 900_000);
        for (place, level) in [(0, Level::None), (500_000, Level::None), (100_000, Level::Lz4)] {
            let disk = FakeDisk::default();
            let file = disk.file(Vec::new(), 512).unwrap();
            let errors = vec![(place, EIO)];
            let factory = over(&disk, &[file], Faults { errors, ..Faults::default() }, level);
            let error = write_and_read(&factory, &bytes).unwrap_err();
            assert!(error.contains("cannot write") && error.contains("os error 5"), "{error}");
            wait_until("the last writes to end", || factory.stats().current_bytes == 0);
        }
    });
}

#[test]
fn bits_that_change_on_the_device_are_noticed() {
    with_watchdog("reading spilled data that has changed", || {
        let bytes = content(&mut Pcg64::seed_from_u64(1), 900_000);
        for (level, bit) in [(Level::None, 8 * 600_000 + 3), (Level::Lz4, 8 * 1000), (Level::Zstd, 0)] {
            let disk = FakeDisk::default();
            let file = disk.file(Vec::new(), 512).unwrap();
            let faults = Faults { flips: vec![bit], ..Faults::default() };
            let factory = over(&disk, &[file], faults, level);
            let error = write_and_read(&factory, &bytes).unwrap_err();
            assert!(error.contains("was not read back as it was written"), "{error}");
        }
    });
}

#[test]
fn spilled_data_that_another_program_cuts_off_is_an_error() {
    with_watchdog("reading spilled data that was cut off", || {
        let bytes = content(&mut Pcg64::seed_from_u64(1), 900_000);
        let disk = FakeDisk::default();
        let file = disk.file(Vec::new(), 512).unwrap();
        // After the 14 writes.
        let faults = Faults { shrinks: Some((15, 300_000)), ..Faults::default() };
        let factory = over(&disk, &[file], faults, Level::None);
        let error = write_and_read(&factory, &bytes).unwrap_err();
        assert!(error.contains("shrank while it was read"), "{error}");
        wait_until("the space to be returned", || factory.stats().current_bytes == 0);
    });
}
