//! From an experiment to the world at time 0.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_drive::Drive;
use sakiyomi_drive::fixed::{Fixed, FixedSpec};
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::{Bytes, Device, Nanos, StreamId};
use sakiyomi_prefetch::{Controller, Limit};
use sakiyomi_regulate::{Owner, RegulatedDevice};

use super::process::Process;
use super::{RunError, World};
use crate::cache::{PageCache, State};
use crate::cpu::Cpu;
use crate::layout::Places;
use crate::measure::Measure;
use crate::program::Program;
use crate::queue::Queue;
use crate::readahead::xnu::Clusters;
use crate::spec::{Distance, JobSpec, PrefetchSpec, ProcessSpec, RegulateSpec, Scenario, SpecError};
use crate::storage::Storage;
use crate::writeback::WriteBack;

impl World {
    pub(super) fn new(
        scenario: &Scenario,
        drive: Option<&DriveSpec>,
        repetition: u32,
    ) -> Result<World, RunError> {
        scenario.check()?;
        let mut random = Pcg64::seed_from_u64(scenario.run.seed.wrapping_add(u64::from(repetition)));
        let storage = storage(scenario, drive, &mut random)?;
        let regulate = regulate(scenario);
        let depth = storage.depth();
        if let Some(asked) = regulate.as_ref().and_then(|spec| spec.depth).filter(|&asked| asked > depth) {
            let problem =
                format!("the device takes {depth} requests at once, and not {asked}; ask for no more");
            return Err(SpecError::Impossible { key: "regulate.depth".to_owned(), problem }.into());
        }
        let (memory, page) = (&scenario.memory, scenario.memory.page.0);
        let pages = |bytes: Bytes| bytes.0.div_ceil(page);
        let mut world = World {
            now: Nanos::ZERO,
            page_bytes: page,
            tick: scenario.cpu.tick,
            window_max: memory.read_ahead.0 / page,
            asynchronous: memory.asynchronous,
            kernel: memory.kernel,
            fault_max: memory.fault.unwrap_or(memory.read_ahead).0 / page,
            requests_max: scenario.queue.requests as usize,
            request_pages: scenario.queue.max_request.0 / page,
            prefetch: scenario.prefetch.clone(),
            queue: Queue::new(&scenario.queue, scenario.cpu.tick, storage.sector().0),
            cache: PageCache::new(pages(memory.size) as usize, memory.replacement),
            write_back: WriteBack::new(memory),
            cpu: Cpu::new(scenario.cpu.cores),
            layouts: Vec::new(),
            owners: Vec::new(),
            reading: Vec::new(),
            clusters: Vec::new(),
            processes: Vec::new(),
            jobs: Vec::new(),
            controller: controller(&scenario.prefetch, memory.size),
            fetchers: Vec::new(),
            done: Vec::new(),
            until: scenario.run.until,
            measure: regulate.as_ref().map(|spec| Measure::new(&scenario.run, spec.decided_by())),
            timings: Vec::new(),
            device: match &regulate {
                Some(spec) => RegulatedDevice::new(storage, spec.settings(depth)),
                None => RegulatedDevice::unregulated(storage),
            },
        };
        let each = scenario.process.iter().flat_map(|spec| (0..spec.count).map(move |index| (spec, index)));
        world.device.keep_timings();
        world.place_files(&each.collect::<Vec<_>>(), &scenario.job, &mut random)?;
        world.give_rates(&scenario.process)?;
        world.count_jobs(&scenario.job);
        Ok(world)
    }

    /// Gives every program the rate that it asks for, from the beginning.
    fn give_rates(&mut self, specs: &[ProcessSpec]) -> Result<(), RunError> {
        let rates = specs.iter().flat_map(|spec| (0..spec.count).map(|_| spec.asked_rate()));
        for (number, rate) in rates.enumerate() {
            let name = self.processes[number].name();
            if let Some(measure) = &mut self.measure {
                measure.add(name, rate);
            }
            let Some(rate) = rate else { continue };
            let given = self.device.set_rate(Nanos::ZERO, Owner(number as u32), rate);
            given.map_err(|error| RunError::Rate { name: name.to_owned(), error })?;
        }
        Ok(())
    }

    /// Jobs have no rates; what they do counts all the same.
    fn count_jobs(&mut self, specs: &[JobSpec]) {
        if let Some(measure) = &mut self.measure {
            specs.iter().for_each(|spec| measure.add(&spec.name, None));
        }
    }

    fn place_files(
        &mut self,
        specs: &[(&ProcessSpec, u32)],
        jobs: &[JobSpec],
        random: &mut Pcg64,
    ) -> Result<(), RunError> {
        let page = self.page_bytes;
        let capacity = self.device.capacity().to_bytes(self.device.sector()).0;
        let sizes = specs.iter().map(|(spec, _)| {
            let output = (spec.size.0 as f64 * spec.output_ratio) as u64;
            (spec.size.0.div_ceil(page), output.div_ceil(page))
        });
        let sizes: Vec<(u64, u64)> = sizes.collect();
        let of_jobs = jobs.iter().map(|job| job.size.0.div_ceil(page) * page);
        let files = sizes.iter().map(|&(input, output)| (input + output) * page).chain(of_jobs).sum();
        if files > capacity {
            return Err(RunError::TooSmall { files, capacity });
        }
        for (&(spec, index), &pages) in specs.iter().zip(&sizes) {
            self.place_file(spec, index, pages, random);
        }
        let next = self.processes.last().map_or(0, |last: &Process| last.files_end);
        self.place_jobs(jobs, next, random);
        self.reading = vec![(0, Nanos::ZERO, Nanos::ZERO); self.layouts.len()];
        self.clusters = vec![Clusters::default(); self.layouts.len()];
        Ok(())
    }

    /// Places the files of the `index`th program of a kind: so many pages of input, and of output.
    fn place_file(
        &mut self,
        spec: &ProcessSpec,
        index: u32,
        (input, output): (u64, u64),
        random: &mut Pcg64,
    ) {
        let own = Pcg64::seed_from_u64(random.next_u64());
        let next = self.processes.last().map_or(0, |last: &Process| last.files_end);
        let (sectors, sector, page) = (self.device.capacity().0, self.device.sector().0, self.page_bytes);
        let mut places = Places { sectors, sectors_per_page: page / sector, random, next };
        // The others of a kind lie behind the first.
        let place = spec.place.filter(|_| index == 0);
        self.layouts.push(places.place(input, place, spec.pieces.map(|piece| piece.0 / page)));
        // Nobody asks for the pages of a file that is only read past the page cache.
        let is_uncached = spec.direct && !spec.cached && self.controller.is_none();
        let file = self.cache.add_file(if is_uncached { 0 } else { input });
        let stream = StreamId(self.processes.len() as u32);
        self.owners.push(stream);
        let output = (output > 0).then(|| {
            self.owners.push(stream);
            self.layouts.push(places.place(output, None, None));
            self.cache.add_file(output)
        });
        let program = Program::new(spec, own);
        self.processes.push(Process::new(name(spec, index), spec, program, file, output, places.next));
        self.fetchers.push(None);
        if spec.cached {
            for page in 0..input {
                self.cache.insert(file, page, State::Clean, false);
            }
        }
    }
}

/// How regulated programs are to be served, if there may be any.
fn regulate(scenario: &Scenario) -> Option<RegulateSpec> {
    let has_rates = scenario.process.iter().any(|process| process.asked_rate().is_some());
    scenario.regulate.clone().or_else(|| has_rates.then(RegulateSpec::default))
}

/// What the `index`th of a kind is called; where there are several they are numbered from 1.
fn name(spec: &ProcessSpec, index: u32) -> String {
    if spec.count == 1 { spec.name.clone() } else { format!("{}.{}", spec.name, index + 1) }
}

fn storage(
    scenario: &Scenario,
    drive: Option<&DriveSpec>,
    random: &mut Pcg64,
) -> Result<Box<dyn Storage>, RunError> {
    if let Some(text) = &scenario.drive.fixed {
        let spec: FixedSpec = text.parse().map_err(|error: sakiyomi_drive::fixed::FixedSpecError| {
            SpecError::Impossible { key: "drive.fixed".to_owned(), problem: error.to_string() }
        })?;
        return Ok(Box::new(Fixed::new(spec, random.next_u64())));
    }
    let Some(drive) = drive else {
        let problem = "the drive that it names was not given".to_owned();
        return Err(SpecError::Impossible { key: "drive.model".to_owned(), problem }.into());
    };
    let settings = scenario.drive.set.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let spec = drive.with_settings(settings)?;
    let mut drive = Drive::new(&spec)?;
    drive.turn_spindle(Nanos(random.next_u64() % drive.revolution().0));
    Ok(Box::new(drive))
}

fn controller(prefetch: &PrefetchSpec, memory: Bytes) -> Option<Controller> {
    let limit = match prefetch.limit {
        Distance::Off => return None,
        Distance::Auto => Limit::Auto { most: prefetch.most.0 },
        Distance::Fixed(limit) => Limit::Fixed { limit: limit.0, step: prefetch.step.0 },
    };
    let bound = (prefetch.limit == Distance::Auto).then_some(memory / 4);
    let mut controller = Controller::new(limit);
    if let Some(room) = prefetch.room.or(bound) {
        let event = sakiyomi_prefetch::Event::Room { bytes: room.0 };
        controller.on(Nanos::ZERO, event, &mut Vec::new());
    }
    Some(controller)
}
