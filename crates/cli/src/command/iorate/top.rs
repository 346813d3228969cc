//! `iorate top`: watches a device and its users.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use sakiyomi_iorate::Control;
use sakiyomi_iorate::protocol::View;
use sakiyomi_model::Nanos;
use sakiyomi_report::result::IorateOwner;
use sakiyomi_report::{Document, IorateResult, Present, prometheus, text};

use super::course::Course;
use crate::console::{Common, print_result_line, print_text};
use crate::output::{OutFile, Overwrite};
use crate::progress::go_on;
use crate::provenance;
use crate::screen::Screen;

pub(super) const EXAMPLES: &str = "Examples:
  sakiyomi iorate top /mnt/disk
  sakiyomi iorate top /mnt/disk --json --count 60
  sakiyomi iorate top /mnt/disk --out watched
  sakiyomi iorate top /mnt/disk --prometheus --out /var/lib/node_exporter/sakiyomi.prom
";

/// Maximum delay until a key, Ctrl-C or a new window size is noticed.
const KEY_POLL_PERIOD: Duration = Duration::from_millis(100);

/// Watch the device and the processes that use it.
#[derive(Debug, Args)]
#[command(
    after_help = "On a terminal, shows a live view, the most active processes first; q or Ctrl-C ends it. Otherwise, \
        prints a line for the device and one for each process at each update. With --json, prints one object \
        per line. With --out, writes a report of the whole time at the end. With --prometheus, prints the \
        metrics once; with --out as well, replaces the file at each update."
)]
pub(crate) struct Top {
    /// Any file or directory of the mount
    dir: PathBuf,
    /// Time between two updates
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: Nanos,
    /// Exit after this many updates
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print the text format of Prometheus
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
    /// Write result.json, report.html, report.md and the charts to this directory at the end; with --prometheus: write to this file
    /// at each update
    #[arg(long, value_name = "DIR|FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

impl Top {
    pub(super) fn run(&self, common: &Common) -> Result<()> {
        ensure!(self.interval.0 > 0, "--interval 0: give a time between two updates, such as 1s");
        let control = Control::open(&self.dir)?;
        let mut looks = SampleSeries::new(&control);
        // Errors are reported before the terminal is taken over.
        let first = looks.next()?;
        if self.prometheus {
            return self.collected(first, &mut looks);
        }
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        let begun = Instant::now();
        looks.course = out.as_ref().map(|_| Course::default());
        looks.keep(&first);
        let screen = if common.json { None } else { Screen::open() };
        let watched = match &screen {
            Some(screen) => self.drawn(first, &mut looks, screen, common.color.style().color),
            None => self.written(&mut looks, common),
        };
        // Restores the terminal before anything is written to it.
        drop(screen);
        // Writes the windows collected so far, even if the mount has ended meanwhile.
        if let Some((out, result)) = out.zip(looks.course.and_then(Course::finish)) {
            let document = Document::new(provenance::run(begun.elapsed()), result);
            out.write_report(&document)?;
            common.note(&out.report());
        }
        watched
    }

    /// Prints lines, from the second sample on: rates of change need two.
    fn written(&self, looks: &mut SampleSeries<'_>, common: &Common) -> Result<()> {
        self.each(self.count, pause, || {
            let result = only_active(looks.next()?);
            if common.json {
                print_result_line(IorateResult::SCHEMA, &result)
            } else {
                print_text(&text::iorate_lines(&result))
            }
        })
    }

    fn collected(&self, first: IorateResult, looks: &mut SampleSeries<'_>) -> Result<()> {
        let Some(out) = &self.out else { return print_text(&prometheus::iorate(&first)) };
        let write =
            |result: &IorateResult| OutFile::create(out)?.write(prometheus::iorate(result).as_bytes());
        write(&first)?;
        self.each(self.count.map(|count| count - 1), pause, || write(&looks.next()?))
    }

    fn drawn(
        &self,
        first: IorateResult,
        looks: &mut SampleSeries<'_>,
        screen: &Screen,
        color: bool,
    ) -> Result<()> {
        let draw = |result: &IorateResult| {
            let window = screen.window();
            screen
                .draw(&text::top(result, window, color))
                .context("cannot draw on the terminal")
                .map(|()| window)
        };
        let shown = std::cell::RefCell::new((draw(&first)?, first));
        let wait = |until: Instant| {
            while go_on().is_ok() {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return true;
                }
                match screen.key(left.min(KEY_POLL_PERIOD)) {
                    Some(b'q' | b'Q') => return false,
                    // Redraws at any other key, as after a stop: the window may be empty.
                    key => {
                        let (window, result) = &mut *shown.borrow_mut();
                        if key.is_some() || screen.window() != *window {
                            // If that fails, so does the next update.
                            *window = draw(result).unwrap_or(*window);
                        }
                    }
                }
            }
            false
        };
        self.each(self.count, wait, || {
            let result = only_active(looks.next()?);
            *shown.borrow_mut() = (draw(&result)?, result);
            Ok(())
        })
    }

    /// Waits and samples in turn, `count` times or until `wait` ends it.
    fn each(
        &self,
        count: Option<u64>,
        wait: impl Fn(Instant) -> bool,
        mut look: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let interval = Duration::from_nanos(self.interval.0);
        let mut next = Instant::now();
        for _ in 0..count.unwrap_or(u64::MAX) {
            // Missed samples are not made up for.
            next = (next + interval).max(Instant::now());
            if !wait(next) {
                break;
            }
            look()?;
        }
        Ok(())
    }
}

/// Sleeps until an instant; returns whether Ctrl-C came before.
fn pause(until: Instant) -> bool {
    while go_on().is_ok() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(KEY_POLL_PERIOD));
    }
    false
}

/// Removes the owners without a rate that were idle since the previous sample: most of them have ended.
fn only_active(mut result: IorateResult) -> IorateResult {
    let active = |owner: &IorateOwner| owner.unanswered > 0 || owner.ios_per_s.is_none_or(|rate| rate > 0.0);
    result.owners.retain(|owner| owner.has_rate() || active(owner));
    result
}

/// Consecutive samples, each with its predecessor.
struct SampleSeries<'a> {
    control: &'a Control,
    before: Option<View>,
    /// All samples, if a report is requested.
    course: Option<Course>,
}

impl<'a> SampleSeries<'a> {
    fn new(control: &'a Control) -> SampleSeries<'a> {
        SampleSeries { control, before: None, course: None }
    }

    fn next(&mut self) -> Result<IorateResult> {
        let view = self.control.view(true)?;
        let result = super::result::result(self.control.path(), &view, self.before.as_ref());
        self.before = Some(view);
        self.keep(&result);
        Ok(result)
    }

    fn keep(&mut self, result: &IorateResult) {
        if let Some(course) = &mut self.course {
            course.add(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use sakiyomi_iorate::protocol::{Call, Owner, Reply, Target};

    use super::super::canned::{mount, owner, view};
    use super::*;

    #[test]
    fn each_look_stands_beside_the_one_before_and_who_is_idle_is_left_out() {
        let looks = AtomicU64::new(0);
        let control = mount(move |call| {
            let Call::Look { all: true, .. } = call else { panic!("{call:?}") };
            let at = looks.fetch_add(1, Ordering::Relaxed);
            let idle = Owner { rate: None, unanswered: 0, ..owner(1, Target::Process { pid: 7 }) };
            let waits = Owner { unanswered: 1, number: 2, ..idle.clone() };
            let active = Owner { ios: 100 + at * 30, number: 3, ..idle.clone() };
            let rated = Owner { unanswered: 0, ..owner(4, Target::Tree { pid: 8 }) };
            let mut view = view(vec![idle, waits, active, rated]);
            view.at_ns += at * 1_000_000_000;
            Reply::Seen(view)
        });
        let mut looks = SampleSeries::new(&control);
        assert_eq!(only_active(looks.next().unwrap()).owners.len(), 4);
        for _ in 0..2 {
            let seen = only_active(looks.next().unwrap());
            let told: Vec<_> = seen.owners.iter().map(|owner| (owner.number, owner.ios_per_s)).collect();
            assert_eq!(told, [(2, Some(0.0)), (3, Some(30.0)), (4, Some(0.0))]);
        }
    }
}
