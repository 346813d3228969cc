//! Validation of an experiment.

use sakiyomi_drive::fixed::FixedSpec;
use sakiyomi_model::{Bytes, Nanos};

use super::error::impossible;
use super::job::THREADS_MAX;
use super::{Access, Distance, ProcessSpec, RateChoice, RegulateSpec, Scenario, SpecError, Until};

/// Maximum number of pages of all files; each takes four bytes of memory.
const PAGES_MAX: u64 = 1 << 28;
/// Maximum number of programs, all of which are examined at every event.
const PROGRAMS_MAX: u64 = 1000;

impl Scenario {
    /// Checks that the experiment can be run.
    ///
    /// # Errors
    /// [`SpecError::Impossible`] if not.
    pub fn check(&self) -> Result<(), SpecError> {
        self.check_with(0)
    }

    /// Checks that the experiment can be run with `others` workloads besides its programs and jobs.
    pub(crate) fn check_with(&self, others: usize) -> Result<(), SpecError> {
        self.check_values(others)?;
        self.check_drive()?;
        self.machine.check(self.cpu.cores)?;
        self.regulate.iter().try_for_each(RegulateSpec::check)?;
        self.check_numbers()?;
        let (memory, page) = (&self.memory, self.memory.page.0);
        self.process.iter().enumerate().try_for_each(|(index, process)| process.check(index, page))?;
        self.job.iter().enumerate().try_for_each(|(index, job)| job.check(index, memory))?;
        self.check_end(others)
    }

    /// Checks keys of which there is one each.
    fn check_values(&self, others: usize) -> Result<(), SpecError> {
        let memory = &self.memory;
        let page = memory.page.0;
        let share = |value: f64| (0.0..=1.0).contains(&value);
        let rules = [
            (
                "process",
                !self.process.is_empty() || !self.job.is_empty() || others > 0,
                "there is none; write a [[process]] or a [[job]]",
            ),
            ("run.repetitions", self.run.repetitions > 0, "at least 1"),
            ("cpu.cores", self.cpu.cores > 0, "at least 1"),
            (
                "queue.plug_ticks",
                self.queue.plug_ticks == 0 || self.cpu.tick > Nanos::ZERO,
                "they need a tick of the timer; set cpu.tick",
            ),
            ("cpu.tick", self.cpu.tick <= Nanos::SECOND, "a second at most"),
            ("queue.plug_ticks", self.queue.plug_ticks <= 1000, "1000 at most"),
            ("queue.requests", self.queue.requests > 0, "at least 1"),
            ("queue.max_request", self.queue.max_request.0 >= page, "at least one page"),
            (
                "memory.page",
                page.is_power_of_two() && (4096..=1 << 20).contains(&page),
                "a power of two from 4KiB to 1MiB",
            ),
            ("memory.size", memory.size.0 >= 16 * page, "at least 16 pages"),
            (
                "memory.size",
                memory.size.0 / page.max(1) <= PAGES_MAX,
                "more pages than can be kept; make memory.page larger",
            ),
            ("memory.read_ahead", memory.read_ahead.0 <= memory.size.0, "more than memory holds"),
            (
                "memory.fault",
                memory.fault.is_none_or(|fault| (page..=memory.size.0).contains(&fault.0)),
                "at least one page, and no more than memory holds",
            ),
            ("memory.dirty", share(memory.dirty) && memory.dirty > 0.0, "between 0 and 1"),
            (
                "memory.dirty_background",
                share(memory.dirty_background) && memory.dirty_background <= memory.dirty,
                "between 0 and memory.dirty",
            ),
            ("memory.dirty_period", memory.dirty_period > Nanos::ZERO, "more than 0"),
            ("memory.write_batch", memory.write_batch.0 >= page, "at least one page"),
            ("prefetch.step", self.prefetch.step.0 > 0, "at least one byte"),
            ("prefetch.call", self.prefetch.call.0 > 0, "at least one byte"),
            ("prefetch.limit", self.prefetch.limit != Distance::Fixed(Bytes(0)), "more than 0, or `off`"),
        ];
        match rules.into_iter().find(|(_, holds, _)| !holds) {
            Some((key, _, problem)) => Err(impossible(key, problem)),
            None => Ok(()),
        }
    }

    /// Checks that there are not too many programs, threads and pages.
    fn check_numbers(&self) -> Result<(), SpecError> {
        let page = self.memory.page.0;
        let programs = self.process.iter().map(|process| u64::from(process.count)).sum::<u64>();
        if programs > PROGRAMS_MAX {
            return Err(impossible("process.count", "1000 programs at most, all kinds together"));
        }
        let threads = self.job.iter().map(|job| u64::from(job.threads)).sum::<u64>();
        if threads > THREADS_MAX {
            return Err(impossible("job.threads", "1000 at most, those of all jobs together"));
        }
        let programs = self.process.iter().map(|process| process.pages(page));
        let jobs = self.job.iter().map(|job| job.size.0 / page);
        let pages: u64 = programs.chain(jobs).fold(0, u64::saturating_add);
        if pages > PAGES_MAX {
            return Err(impossible(
                "process.size",
                "the files have more pages than can be kept; make memory.page larger",
            ));
        }
        Ok(())
    }

    /// Checks that the experiment ends.
    fn check_end(&self, others: usize) -> Result<(), SpecError> {
        let goes_on = |process: &ProcessSpec| process.access == Access::Random && process.reads.is_none();
        let has_another = !self.job.is_empty() || others > 0 || !self.process.iter().all(goes_on);
        let is_ended_by_another = self.run.until == Until::First && has_another;
        for (index, process) in self.process.iter().enumerate().filter(|(_, process)| goes_on(process)) {
            let problem = if !is_ended_by_another {
                "a random reader without a number of reads never ends; give it `reads`, or write \
                 run.until = \"first\" and let another one end"
            } else if process.stops_the_clock(self.memory.size) {
                "a random reader that reads on without computing takes no time once its file is in memory, so that no \
                 other program ever ends; give it `reads`, `compute`, `think` or `direct`, or a file larger than \
                 memory.size"
            } else {
                continue;
            };
            return Err(impossible(&format!("process.{index}.reads"), problem));
        }
        Ok(())
    }

    fn check_drive(&self) -> Result<(), SpecError> {
        match (&self.drive.model, &self.drive.fixed) {
            (Some(_), None) => Ok(()),
            (None, Some(_)) if !self.drive.set.is_empty() => {
                Err(impossible("drive.set", "a fixed device has no such figures; change drive.fixed"))
            }
            (None, Some(text)) => text
                .parse::<FixedSpec>()
                .map(|_| ())
                .map_err(|error| impossible("drive.fixed", &error.to_string())),
            _ => Err(impossible("drive", "name one of `model` and `fixed`")),
        }
    }
}

impl ProcessSpec {
    fn check(&self, index: usize, page: u64) -> Result<(), SpecError> {
        let day = Nanos::SECOND * 86_400;
        let rules = [
            ("count", self.count > 0, "at least 1"),
            (
                "rate",
                self.rate.is_none_or(RateChoice::is_possible),
                "1 to 100 percent of the device, or 0 for none; or a time, as `every 40ms`",
            ),
            ("size", self.size.0 > 0, "at least one byte"),
            ("call", self.call.0 > 0 && self.call.0 <= 1 << 30, "between one byte and 1GiB"),
            ("compute", self.compute.is_none_or(|rate| rate.0 >= 1000), "at least 1kB per second"),
            ("output_ratio", (0.0..=100.0).contains(&self.output_ratio), "between 0 and 100"),
            ("think", self.think <= day, "a day at most"),
            ("start", self.start <= day, "a day at most"),
            (
                "place",
                self.place.is_none_or(|place| (0.0..1.0).contains(&place)),
                "at least 0 and less than 1",
            ),
            ("pieces", self.pieces.is_none_or(|pieces| pieces.0 >= page), "at least one page"),
            (
                "pause",
                self.pause.is_none_or(|pause| pause.every.0 > 0 && pause.length <= day),
                "every one byte or more, and a day at most",
            ),
            (
                "back",
                self.back.is_none_or(|back| back.by.0 < back.every.0),
                "`by` less than `every`, or it never comes to the end",
            ),
            ("back", self.back.is_none() || self.call.0 <= self.size.0, "a call no longer than the file"),
        ];
        match rules.into_iter().find(|(_, holds, _)| !holds) {
            Some((key, _, problem)) => Err(impossible(&format!("process.{index}.{key}"), problem)),
            None => Ok(()),
        }
    }

    /// Returns whether its calls take no virtual time once its file is in a page cache of this size.
    fn stops_the_clock(&self, memory: Bytes) -> bool {
        let pauses = self.pause.is_some_and(|pause| pause.length > Nanos::ZERO);
        let takes_time = self.direct || self.compute.is_some() || self.think > Nanos::ZERO || pauses;
        !takes_time && self.size <= memory
    }

    /// Returns the number of pages of its files.
    fn pages(&self, page: u64) -> u64 {
        let output = (self.size.0 as f64 * self.output_ratio) as u64;
        (self.size.0.saturating_add(output) / page).saturating_mul(u64::from(self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "name = 'x'\n[drive]\nfixed = 'latency=1ms'\n[[process]]\nname = 'p'\n";

    fn error(change: &[(&str, &str)]) -> String {
        let mut scenario = Scenario::from_toml(LEAST, "x.toml").unwrap();
        for (key, value) in change {
            if let Err(error) = scenario.set(key, value) {
                return error.to_string();
            }
        }
        scenario.check().unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_key_and_what_to_do() {
        assert_eq!(error(&[("process.p.compute", "10")]), "process.0.compute: at least 1kB per second");
        assert!(error(&[("prefetch.limit", "much")]).contains("or `auto`, or `off`"));
        assert!(
            error(&[("memory.sice", "1GiB")])
                .starts_with("memory.sice=1GiB: unknown key; did you mean memory.size?")
        );
        assert!(
            error(&[("memry.size", "1GiB")])
                .starts_with("memry.size=1GiB: unknown key; did you mean memory.size?")
        );
        assert!(error(&[("process.p.siez", "1GiB")]).contains("did you mean process.p.size?"));
        assert_eq!(
            error(&[("cpu.cores", "many")]),
            "cpu.cores=many: expected a whole number from 0 to 4294967295"
        );
        assert_eq!(error(&[("memory.size", "5")]), "memory.size: at least 16 pages");
        assert!(error(&[("run.until", "fisrt")]).contains("expected one of all, first; did you mean first?"));
        assert!(error(&[("process.q.size", "1GiB")]).contains("no process is called `q`; there is p"));
        assert!(error(&[("drive.model", "deskstar-7k250")]).contains("name one of"));
        assert!(
            error(&[("process.p.access", "random")]).starts_with("process.0.reads: a random reader without")
        );
        let unknown = Scenario::from_toml("name = 'x'\ncolor = 1\n", "x.toml").unwrap_err().to_string();
        assert!(
            unknown.starts_with("x.toml:2: color: unknown key; valid keys: name, run, drive"),
            "{unknown}"
        );
        let impossible =
            Scenario::from_toml(&format!("{LEAST}\ncompute = 10\n"), "x.toml").unwrap_err().to_string();
        assert_eq!(impossible, "x.toml:7: process.0.compute: at least 1kB per second");
    }

    #[test]
    fn an_experiment_whose_clock_would_stop_is_refused() {
        let two =
            format!("{LEAST}reads = 9\n[run]\nuntil = 'first'\n[[process]]\nname = 'q'\naccess = 'random'\n");
        let checked = |more: &str| {
            let scenario = Scenario::from_toml(&format!("{two}{more}\n"), "x.toml");
            scenario.map(|_| ()).map_err(|error| error.to_string())
        };
        let refused = checked("").unwrap_err();
        assert!(refused.contains(": process.1.reads: a random reader that reads on"), "{refused}");
        assert!(checked("size = '1GiB'\n[memory]\nsize = '1GiB'").is_err());
        for more in
            ["reads = 100", "compute = '1GB'", "think = '1us'", "direct = true", "[memory]\nsize = '32MiB'"]
        {
            assert_eq!(checked(more), Ok(()), "{more}");
        }
    }
}
