//! The run of a blocked read.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::builder::{IoThread, Options};
use super::cancel::Tracker;
use super::error::Error;
use super::gather::{PutTogether, Sink};
use super::look_ahead::Input;
use super::mapped::Mapped;
use super::report::{Event, Report, Wanted};
use super::schedule;
use super::source::Inputs;
use super::stream::Stream;
use super::work::{SMALL_FILE_MAX, Work};

impl<T: Send> Mapped<'_, T> {
    /// Reads and maps all inputs; `take` receives results and ends. The read ends early if `enough` is set.
    pub(super) fn run(
        self,
        put_together: Option<PutTogether<'_, T>>,
        enough: &AtomicBool,
        mut take: impl FnMut(usize, Event<T>) -> Result<Wanted, Error> + Send,
    ) -> Result<Report, Error> {
        let begun = Instant::now();
        let Mapped { inputs, options, shape, kernel } = self;
        let take = Box::new(|file, event| {
            let wanted = take(file, event)?;
            if wanted == Wanted::Nothing {
                enough.store(true, Ordering::Relaxed);
            }
            Ok(wanted)
        });
        let sink = Sink::new(put_together, options.range.start, take);
        let mut work = Work::new(&options, &*kernel, &shape, put_together.is_none(), sink, enough);
        let observer = options.observer.clone();
        work.tracker = observer.map(|observer| Tracker::new(observer, total_bytes(&inputs, &options)));
        let report = match inputs {
            Inputs::Paths(paths) => of_paths(work, &paths),
            Inputs::Stream(name, from) => of_stream(work, &name, from),
        }?;
        Ok(Report { elapsed: begun.elapsed(), ..report })
    }
}

/// Returns the number of bytes to read, if all inputs are regular files.
fn total_bytes(inputs: &Inputs<'_>, options: &Options) -> Option<u64> {
    let Inputs::Paths(paths) = inputs else { return None };
    if options.decoder.is_some() {
        return None;
    }
    let of_file = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok().filter(|metadata| metadata.is_file())?;
        let range = &options.range;
        Some(range.end.min(metadata.len()).saturating_sub(range.start))
    };
    paths.iter().map(of_file).sum()
}

fn of_paths<T: Send>(work: Work<'_, T>, paths: &[PathBuf]) -> Result<Report, Error> {
    if let [path] = paths {
        let is_small = std::fs::metadata(path).is_ok_and(|metadata| schedule::is_small(&metadata));
        if work.takes_small() && is_small {
            let opened = File::open(path);
            let file = opened.map_err(|source| Error::Open { path: path.clone(), source })?;
            return work.alone(path, file);
        }
    }
    let is_dedicated = work.read.io == IoThread::Dedicated;
    let report = schedule::all(work, paths.iter().map(|path| Input::Path(path)).collect())?;
    Ok(Report { io_is_urgent: report.io_is_urgent.filter(|_| is_dedicated), ..report })
}

fn of_stream<T: Send>(work: Work<'_, T>, name: &Path, mut from: Stream<'_>) -> Result<Report, Error> {
    let mut first = vec![0; SMALL_FILE_MAX];
    let (filled, outcome) = from.fill(&mut first);
    first.truncate(filled);
    match outcome {
        Ok(is_waiting) if is_waiting || filled == SMALL_FILE_MAX => {
            schedule::all(work, vec![Input::Stream(name, from.behind(first))])
        }
        ended => work.alone(name, io::Read::chain(io::Cursor::new(first), Failed(ended.err()))),
    }
}

/// The end of a stream, with its error if it has one.
struct Failed(Option<io::Error>);

impl io::Read for Failed {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
