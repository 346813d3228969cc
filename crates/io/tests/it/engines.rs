//! On every engine, operations on several files, with concurrent reads, writes and syncs, match a model in memory.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::sync::Arc;

use crate::on_disk::{content, file_with};
use proptest::prelude::*;
use sakiyomi_io::engine::{self, Completion, Engine, Op, Payload};
use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{Access, Buffer, BufferPool, EngineKind, EngineSpec, Error, IoFile, Memory};
use sakiyomi_testing::{ScratchFile, skipped};

const BLOCK: usize = 4096;
/// Blocks of each file.
const BLOCKS: u64 = 12;
const FILES: usize = 3;

/// An operation: the index of its file, the index of its block, and the byte to write; `None` for a read.
type Step = (usize, u64, Option<u8>);

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..FILES, 0..BLOCKS, any::<Option<u8>>()), 1..120)
}

fn any_kind() -> impl Strategy<Value = EngineKind> {
    let writing = EngineKind::ALL.into_iter().filter(|kind| kind.uses_buffers() && *kind != EngineKind::Null);
    prop::sample::select(writing.collect::<Vec<_>>())
}

/// Performs all steps with all slots in use, never two at once on the same block, and compares the data read and the
/// final content of the files with a model.
fn perform(
    engine: &mut dyn Engine,
    pool: &BufferPool,
    files: &[Arc<IoFile>],
    model: &mut [Vec<u8>],
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let mut in_flight: HashMap<(usize, u64), ()> = HashMap::new();
    let mut completions = Vec::new();
    for (tag, &(file, block, write)) in steps.iter().enumerate() {
        while in_flight.contains_key(&(file, block)) || engine.free_slots() == 0 {
            reap(engine, 1, &mut completions, &mut in_flight, steps, model)?;
        }
        let mut buffer = take(engine, pool, &mut completions, &mut in_flight, steps, model)?;
        let offset = block * BLOCK as u64;
        let target = Arc::clone(&files[file]);
        let op = match write {
            Some(byte) => {
                buffer.space().fill(byte);
                buffer.set_len(BLOCK);
                model[file][offset as usize..][..BLOCK].fill(byte);
                Op::write(tag as u64, target, offset, buffer)
            }
            None => Op::read(tag as u64, target, offset, BLOCK, Payload::Buffer(buffer)),
        };
        in_flight.insert((file, block), ());
        engine.submit(op);
    }
    while !in_flight.is_empty() {
        reap(engine, 1, &mut completions, &mut in_flight, steps, model)?;
    }
    for file in files {
        while engine.free_slots() == 0 {
            engine.reap(1, &mut completions).unwrap();
        }
        engine.submit(Op::sync(u64::MAX, Arc::clone(file)));
        loop {
            engine.reap(1, &mut completions).unwrap();
            let Some(Completion { op, result, .. }) = completions.pop() else { continue };
            match result {
                Ok(_) => break,
                Err(error) if error.raw_os_error() == Some(4) => engine.submit(op),
                Err(error) => prop_assert!(false, "a sync failed: {error}"),
            }
        }
    }
    Ok(())
}

fn take(
    engine: &mut dyn Engine,
    pool: &BufferPool,
    completions: &mut Vec<Completion>,
    in_flight: &mut HashMap<(usize, u64), ()>,
    steps: &[Step],
    model: &mut [Vec<u8>],
) -> Result<Buffer, TestCaseError> {
    loop {
        if let Some(mut buffer) = pool.take() {
            buffer.set_len(0);
            return Ok(buffer);
        }
        reap(engine, 1, completions, in_flight, steps, model)?;
    }
}

/// Reaps completions, continues short and interrupted operations, and checks the data read.
fn reap(
    engine: &mut dyn Engine,
    at_least: usize,
    completions: &mut Vec<Completion>,
    in_flight: &mut HashMap<(usize, u64), ()>,
    steps: &[Step],
    model: &[Vec<u8>],
) -> Result<(), TestCaseError> {
    engine.reap(at_least, completions).unwrap();
    for completion in completions.drain(..) {
        let Completion { op, result, .. } = completion;
        match result {
            Ok(_) if op.done < BLOCK => engine.submit(op),
            Err(error) if matches!(error.raw_os_error(), Some(4 | 11)) => engine.submit(op),
            Err(error) => prop_assert!(false, "{error}"),
            Ok(_) => {
                let (file, block, write) = steps[op.tag as usize];
                in_flight.remove(&(file, block));
                if write.is_none() {
                    let Payload::Buffer(buffer) = &op.payload else { panic!("a read without its buffer") };
                    let at = block as usize * BLOCK;
                    prop_assert_eq!(&buffer[..], &model[file][at..at + BLOCK]);
                }
            }
        }
    }
    Ok(())
}

fn original(file: usize) -> Vec<u8> {
    content(BLOCKS as usize * BLOCK).into_iter().map(|byte| byte.wrapping_add(file as u8)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn one_engine_serves_many_files_and_both_directions(
        kind in any_kind(), depth in 1usize..9, direct: bool, registered: bool, attached: bool, steps in any_steps(),
    ) {
        let depth = if kind == EngineKind::Read { 1 } else { depth };
        let access = if direct { Access::Direct } else { Access::Buffered };
        let pool = BufferPool::fixed(depth + 3, BLOCK, Memory::Huge).unwrap();
        let opened = engine::open(EngineSpec { kind, depth }, BLOCK, registered.then_some(&pool));
        let mut engine = match opened {
            Ok(opened) => opened.engine,
            Err(error @ Error::Method { .. }) => {
                skipped(kind.name(), error);
                return Ok(());
            }
            Err(error) => panic!("{error}"),
        };
        let mut model: Vec<Vec<u8>> = (0..FILES).map(original).collect();
        let scratch: Vec<ScratchFile> = model.iter().map(|bytes| file_with("engine", bytes)).collect();
        let mut files = Vec::new();
        for scratch in &scratch {
            match open_to_write(scratch, access) {
                Ok(file) => files.push(Arc::new(file)),
                Err(error) => {
                    skipped("direct I/O", error);
                    return Ok(());
                }
            }
        }
        if attached {
            files.iter().for_each(|file| engine.attach(file));
        }
        perform(&mut *engine, &pool, &files, &mut model, &steps)?;
        files.iter().filter(|_| attached).for_each(|file| engine.detach(file));
        drop(engine);
        for (scratch, expected) in scratch.iter().zip(&model) {
            prop_assert!(std::fs::read(scratch.path()).unwrap() == *expected);
        }
        // No engine keeps a detached file open.
        prop_assert!(files.into_iter().all(|file| Arc::into_inner(file).is_some()));
    }

    #[test]
    fn the_fake_engine_does_the_same_with_faults(
        seed: u64, depth in 1usize..9, short: u8, late: u8, interrupted in 0u8..128, steps in any_steps(),
    ) {
        let disk = FakeDisk::default();
        let mut model: Vec<Vec<u8>> = (0..FILES).map(original).collect();
        let files: Vec<Arc<IoFile>> =
            model.iter().map(|bytes| disk.file(bytes.clone(), 512).unwrap()).collect();
        let faults = Faults {
            seed,
            short_of_256: short,
            late_of_256: late,
            interrupted_of_256: interrupted,
            ..Faults::default()
        };
        let pool = BufferPool::fixed(depth + 3, BLOCK, Memory::Ordinary).unwrap();
        perform(&mut *disk.engine(depth, faults), &pool, &files, &mut model, &steps)?;
        for (file, expected) in files.iter().zip(&model) {
            prop_assert!(disk.content(file) == *expected);
        }
    }
}

fn open_to_write(scratch: &ScratchFile, access: Access) -> Result<IoFile, Error> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    if access == Access::Direct {
        options.custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed());
    }
    let file: File = options
        .open(scratch.path())
        .map_err(|source| Error::Open { path: scratch.path().to_owned(), source })?;
    IoFile::from_file(file, scratch.path(), access)
}

/// The kernel takes queued operations later, and their file must still be in its table.
#[test]
fn an_operation_outlives_the_attachment_of_its_file() {
    let bytes = content(20 * BLOCK);
    let scratch = file_with("attached", &bytes);
    let files = [0, 1].map(|_| Arc::new(IoFile::open(scratch.path(), Access::Buffered).unwrap()));
    for spec in ["read", "pread:32", "aio:32", "uring:32", "uring-sqpoll:32"] {
        let pool = BufferPool::fixed(32, BLOCK, Memory::Ordinary).unwrap();
        let Ok(mut opened) = engine::open(spec.parse().unwrap(), BLOCK, None) else {
            skipped("an_operation_outlives", format_args!("no {spec} here"));
            continue;
        };
        let engine = &mut opened.engine;
        for round in 0..40u64 {
            let file = &files[round as usize % 2];
            let (offset, buffer) = (round % 20 * BLOCK as u64, pool.take().expect("all are released"));
            engine.attach(file);
            engine.submit(Op::read(round, Arc::clone(file), offset, BLOCK, Payload::Buffer(buffer)));
            engine.detach(file);
            let mut completions = Vec::new();
            engine.reap(1, &mut completions).unwrap();
            let [Completion { op, result, .. }] = &completions[..] else { panic!("{spec}: {completions:?}") };
            assert_eq!(*result.as_ref().unwrap(), BLOCK, "{spec}");
            assert_eq!((op.tag, op.done), (round, BLOCK), "{spec}");
        }
    }
}
