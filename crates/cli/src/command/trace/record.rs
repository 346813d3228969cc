//! `trace record`: the requests of a live block device.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use sakiyomi_model::Nanos;
use sakiyomi_os::block_device::DiskPart;
use sakiyomi_os::process::command::{Running, Signals};
use sakiyomi_realtime::{BlockRecorded, BlockRecorder, BlockRecording};
use sakiyomi_report::number::{self, plural};
use sakiyomi_trace::stats::{Collector, Info};
use sakiyomi_trace::{OutFormat, Record as TraceRecord};
use serde::Serialize;

use super::destination::{Destination, cannot_record_to_stdout};
use super::spread;
use crate::child;
use crate::console::{Common, Envelope, note, note_pretty_json, print_error, print_result, print_text};
use crate::progress::Progress;

pub(super) const EXAMPLES: &str = "Examples:
  sakiyomi trace record /dev/sdb --for 30s -o sdb.csv.gz
  sakiyomi trace record . -o job.parquet -- ./job.sh
";

const SCHEMA: &str = "sakiyomi.trace-recorded/1";

/// Bytes of a sector of the kernel.
const KERNEL_SECTOR_BYTES: u64 = 512;
/// Time between two polls of a recording that ends by time or by a signal.
const POLL_PERIOD: Duration = Duration::from_millis(200);

/// Record the requests of a block device while others use it.
#[derive(Debug, Args)]
#[command(
    after_help = "Ends after --for, with the command, or by Ctrl-C; requests in flight are then awaited for two seconds. \
        Requests are those that the driver gets, after the kernel has split and merged them. Of each the trace has the \
        time at which it entered the queue of the I/O scheduler, the time at which the driver got it (started_ns), the \
        response time, and as its stream the thread that asked. Offsets count from the start of the device, of a \
        partition from its first sector: for `drive fit`, name the whole disk, not a partition, nor a file or directory on \
        one. Needs root and tracefs, and no other program; devices whose driver takes no requests, such as those of \
        device-mapper, md and zram, are refused."
)]
pub(crate) struct Record {
    /// The device: a disk, a partition, a loop device, or a file or directory on it
    device: PathBuf,
    /// The trace: Parquet if its name ends in .parquet, else CSV; compressed if it ends in .gz or .zst. `-` is standard
    /// output, as CSV
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Format to write: sakiyomi, parquet, disksim, mqsim or fio [default: from the file name]
    #[arg(long, value_name = "NAME")]
    to: Option<OutFormat>,
    /// Record for this time [default: until Ctrl-C, or while the command runs]
    #[arg(long = "for", value_name = "TIME", conflicts_with = "command")]
    duration: Option<Nanos>,
    /// A command to run, and its arguments; all requests of the device are recorded meanwhile, of whatever program
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The result of a recording.
#[derive(Serialize)]
struct RecordedDocument<'a> {
    /// The trace.
    path: &'a Path,
    /// The kernel's name of the recorded device.
    device: &'a str,
    /// The kernel's name of the whole disk.
    disk: &'a str,
    /// First byte of the device on the disk; 0 unless it is a partition.
    start_bytes: u64,
    /// Time from start to end.
    elapsed_ns: u64,
    /// Requests that were not completed at the end, or whose completion may have been lost; without response time.
    unfinished_requests: u64,
    /// Requests that were not complete after 120 s, or after a million others; without response time.
    given_up_requests: u64,
    /// Completions of requests that began before the recording, or whose beginning was lost.
    unmatched_completions: u64,
    /// Requests that were completed with an error; without response time.
    failed_requests: u64,
    /// Events that the kernel overwrote before they were read.
    lost_events: u64,
    /// Whether the recording ended by itself, because the process that holds the kernel's buffers was killed.
    ended_early: bool,
    /// Description of the trace, with rates and mean queue depth over the elapsed time.
    #[serde(flatten)]
    info: &'a Info,
}

/// Destination and statistics, of the recording thread.
struct Sink {
    destination: Destination,
    collector: Collector,
}

/// A recording and its device.
struct Recording {
    part: DiskPart,
    recording: BlockRecording<anyhow::Error>,
    /// Left to the recording thread until it has ended.
    sink: Arc<Mutex<Option<Sink>>>,
}

impl Record {
    /// Runs it; returns the exit code of the command, if there is one.
    pub(super) fn run(&self, common: &Common) -> Result<ExitCode> {
        let signals = Signals::hold().context("cannot block signals")?;
        if self.command.is_empty() {
            self.record_time(&signals, common)?;
            return Ok(ExitCode::SUCCESS);
        }
        Ok(self.record_command(&signals, common).unwrap_or_else(|error| child::failed(&error)))
    }

    fn record_time(&self, signals: &Signals, common: &Common) -> Result<()> {
        let part = self.part()?;
        let recording = self.start(part, common)?;
        if self.duration.is_none() {
            common.note(&format!("recording {}; Ctrl-C ends it", recording.part.name));
        }
        let millis = self.duration.map(|duration| duration.0 / 1_000_000);
        let mut progress = Progress::new(millis, common.quiet);
        let begun = Instant::now();
        let time = self.duration.map(|duration| Duration::from_nanos(duration.0));
        loop {
            let left = time.map(|time| time.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) || recording.recording.is_over() {
                break;
            }
            if signals.wait_for_end(left.map_or(POLL_PERIOD, |left| left.min(POLL_PERIOD)))? {
                break;
            }
            let (requests, bytes) = recording.recording.progress();
            let done = millis.map_or(requests, |millis| (begun.elapsed().as_millis() as u64).min(millis));
            progress.set(done, || format!("{}, {bytes}", plural(requests, "request")))?;
        }
        drop(progress);
        let is_stream = self.is_stream();
        self.finish(recording, common, is_stream)
    }

    fn record_command(&self, signals: &Signals, common: &Common) -> Result<ExitCode> {
        ensure!(!self.is_stream(), cannot_record_to_stdout());
        let part = self.part()?;
        let recording = self.start(part, common)?;
        let running = Running::start(&self.command, signals)?;
        running.wait(signals).context("cannot wait for the command, which continues on its own")?;
        // The command has run: what fails now is reported, and its exit code stays.
        if let Err(error) = self.finish(recording, common, true) {
            print_error(&format!("{error:#}"));
        }
        let end = running.end().context("the command has ended, but its exit status is unknown")?;
        Ok(child::end_as(end.status))
    }

    fn is_stream(&self) -> bool {
        self.output.as_os_str() == "-"
    }

    /// Returns the device to record, if it has requests.
    fn part(&self) -> Result<DiskPart> {
        let shown = self.device.display();
        // A bare name is that of a device, unless there is such a file.
        let node = Path::new("/dev").join(&self.device);
        let is_name = self.device.components().count() == 1 && !self.device.exists() && node.exists();
        let path = if is_name { &node } else { &self.device };
        let part = DiskPart::of_path(path).map_err(|why| anyhow!("cannot record {shown}: {why}"))?;
        ensure!(
            part.below.is_empty(),
            "cannot record {shown}: {} passes requests on to {}; record {}",
            part.name,
            part.below.join(" and "),
            if part.below.len() == 1 { "that" } else { "one of them" }
        );
        ensure!(
            part.takes_requests,
            "cannot record {shown}: the driver of {} takes no requests, as those of zram and of memory",
            part.disk_name
        );
        Ok(part)
    }

    fn start(&self, part: DiskPart, common: &Common) -> Result<Recording> {
        let shown = self.device.display();
        let cannot = |why| anyhow!("cannot record {shown}: {why}");
        let destination = Destination::open(&self.output, self.to)?;
        let recorder = BlockRecorder::create(&part).map_err(cannot)?;
        self.note_own_writes(&part, common);
        let sink = Arc::new(Mutex::new(Some(Sink { destination, collector: Collector::default() })));
        let shared = Arc::clone(&sink);
        let each = move |record: &TraceRecord| {
            let mut sink = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let sink = sink.as_mut().expect("it is taken after the end");
            sink.collector.observe(record);
            sink.destination.write(record)
        };
        let recording = recorder.start(each).map_err(cannot)?;
        Ok(Recording { part, recording, sink })
    }

    /// Notes that the trace contains the writes of itself.
    fn note_own_writes(&self, part: &DiskPart, common: &Common) {
        let directory = self.output.parent().filter(|parent| !parent.as_os_str().is_empty());
        let own = DiskPart::of_path(directory.unwrap_or(Path::new(".")));
        if !self.is_stream() && own.is_ok_and(|own| own.disk == part.disk) {
            common.note(&format!(
                "the trace is written to {}, which is recorded: the requests that write it are among the others",
                part.disk_name
            ));
        }
    }

    /// Ends the recording, and reports it; as a note if standard output belongs to others.
    fn finish(&self, recording: Recording, common: &Common, as_note: bool) -> Result<()> {
        let Recording { part, recording, sink } = recording;
        let recorded = recording.finish()?;
        let sink = sink.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Sink { destination, collector } = sink.expect("it is taken once");
        let info = collector.finish().over(recorded.elapsed);
        let records = destination.close()?;
        let document = RecordedDocument {
            path: &self.output,
            device: &part.name,
            disk: &part.disk_name,
            start_bytes: part.sectors.map_or(0, |(first, _)| first * KERNEL_SECTOR_BYTES),
            elapsed_ns: recorded.elapsed.0,
            unfinished_requests: recorded.counts.unfinished,
            given_up_requests: recorded.counts.given_up,
            unmatched_completions: recorded.counts.unmatched,
            failed_requests: recorded.counts.failed,
            lost_events: recorded.lost_events,
            ended_early: recorded.ended_early,
            info: &info,
        };
        match (common.json, as_note) {
            (true, true) => note_pretty_json(&Envelope { schema: SCHEMA, result: &document }),
            (true, false) => print_result(SCHEMA, &document)?,
            (false, true) if common.quiet => {}
            (false, true) => note(described(&part, &recorded, &info).trim_end()),
            (false, false) => print_text(&described(&part, &recorded, &info))?,
        }
        if !common.json && !self.is_stream() {
            common.note(&format!("written: {}, {}", self.output.display(), plural(records, "record")));
        }
        Ok(())
    }
}

fn described(part: &DiskPart, recorded: &BlockRecorded, info: &Info) -> String {
    let place = part.sectors.map_or_else(String::new, |(first, _)| {
        let start = number::bytes(first * KERNEL_SECTOR_BYTES);
        format!(" ({} from {start} on; offsets count from there)", part.disk_name)
    });
    let mut text = format!("{}{place}, recorded for {}\n", part.name, number::duration(recorded.elapsed.0));
    let mut line = |key: &str, value: String| text.push_str(&format!("  {key:<18} {value}\n"));
    let rate = info.requests_per_s.unwrap_or_default();
    line("requests", format!("{}, {rate:.1} per second", number::count(info.records)));
    line("reads", format!("{}, {}", number::count(info.reads), number::bytes(info.read_bytes)));
    line("writes", format!("{}, {}", number::count(info.writes), number::bytes(info.written_bytes)));
    line("throughput", format!("{:.2} MB/s", info.bytes_per_s.unwrap_or_default() / 1e6));
    if info.flushes + info.discards + info.fua_writes > 0 {
        line("others", super::others(info));
    }
    if let Some(times) = &info.response_ns {
        line("response", spread(times, number::duration));
    }
    if let Some(depth) = info.queue_depth_mean {
        line("mean queue depth", format!("{depth:.2}"));
    }
    for sentence in exceptions(recorded, info) {
        text.push_str(&format!("{sentence}\n"));
    }
    text
}

/// Returns sentences about what the trace lacks.
fn exceptions(recorded: &BlockRecorded, info: &Info) -> Vec<String> {
    let BlockRecorded { counts, lost_events, ended_early, elapsed } = *recorded;
    let mut all = Vec::new();
    if ended_early {
        all.push(format!(
            "The recording ended early, after {}: the process that holds the kernel's buffers was killed.",
            number::duration(elapsed.0)
        ));
    }
    if info.records == 0 && lost_events == 0 {
        all.push("The device got no request. Reads may have been served by the page cache.".to_owned());
    }
    if lost_events > 0 {
        all.push(format!(
            "{} came faster than they could be read, and were lost: requests are missing or have no response time.",
            plural(lost_events, "event")
        ));
    }
    if counts.unfinished > 0 {
        all.push(format!("{} without completion: no response time.", plural(counts.unfinished, "request")));
    }
    if counts.given_up > 0 {
        all.push(format!(
            "{} not complete after 120 s, or after a million others: no response time.",
            plural(counts.given_up, "request")
        ));
    }
    if counts.failed > 0 {
        all.push(format!("{} with an error: no response time.", plural(counts.failed, "request")));
    }
    all
}
