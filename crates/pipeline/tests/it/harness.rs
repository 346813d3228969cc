//! Runs pipelines in memory.

use std::io::{Cursor, Read, Write};
use std::sync::{Arc, Mutex};

use sakiyomi_pipeline::{Error, Outcome, Pipeline, Standard};
use sakiyomi_stream::{Report, Settings};

/// Bytes that were written to the standard output.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A pipeline that has ended.
pub(crate) struct Ended {
    pub(crate) written: Written,
    pub(crate) report: Report,
    pub(crate) outcome: Outcome,
}

/// Runs a description on one worker; `input` is the standard input.
pub(crate) fn run(description: &str, input: impl Read + Send + 'static) -> Result<Ended, Error> {
    run_on(description, input, |_| 0)
}

/// Runs a description with each operator on the worker that `worker_of` names, of two.
pub(crate) fn run_on(
    description: &str,
    input: impl Read + Send + 'static,
    worker_of: impl Fn(usize) -> usize,
) -> Result<Ended, Error> {
    let pipeline = Pipeline::parse(description, "test.toml")?;
    let written = Written::default();
    let standard = Standard { input: Some(Box::new(input)), output: Some(Box::new(written.clone())) };
    let (stream, run) = pipeline.build(standard)?;
    assert!(stream.names().eq(pipeline.operators()), "operators have the numbers of the plan");
    assert_eq!(pipeline.planner()?.operators().len(), pipeline.operators().count());
    let workers: Vec<usize> = (0..pipeline.operators().count()).map(worker_of).collect();
    let report = stream.start(Settings::unpinned(2), &workers)?.finish()?;
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    let outcome = run.finish()?;
    Ok(Ended { written, report, outcome })
}

/// The lines that a description writes for an input.
pub(crate) fn lines(description: &str, input: &str) -> String {
    let input = Cursor::new(input.as_bytes().to_vec());
    run(description, input).unwrap_or_else(|error| panic!("{error}\n{description}")).written.text()
}

/// The error of a description that is refused.
pub(crate) fn refused(description: &str) -> String {
    match Pipeline::parse(description, "test.toml") {
        Ok(_) => panic!("it was accepted:\n{description}"),
        Err(error) => error.to_string(),
    }
}
