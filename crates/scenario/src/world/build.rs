//! From an experiment to the world at time 0.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_drive::Drive;
use sakiyomi_drive::fixed::{Fixed, FixedSpec};
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_prefetch::{Controller, Limit};

use super::process::Process;
use super::{RunError, World};
use crate::cache::{PageCache, State};
use crate::cpu::Cpu;
use crate::layout::Places;
use crate::program::Program;
use crate::queue::Queue;
use crate::readahead::xnu::Clusters;
use crate::spec::{Distance, JobSpec, PrefetchSpec, ProcessSpec, Scenario, SpecError};
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
            reading: Vec::new(),
            clusters: Vec::new(),
            processes: Vec::new(),
            jobs: Vec::new(),
            controller: controller(&scenario.prefetch, memory.size),
            fetchers: Vec::new(),
            done: Vec::new(),
            storage,
        };
        world.place_files(&scenario.process, &scenario.job, &mut random)?;
        Ok(world)
    }

    fn place_files(
        &mut self,
        specs: &[ProcessSpec],
        jobs: &[JobSpec],
        random: &mut Pcg64,
    ) -> Result<(), RunError> {
        let page = self.page_bytes;
        let capacity = self.storage.capacity().0;
        let sizes = specs.iter().map(|spec| {
            let output = (spec.size.0 as f64 * spec.output_ratio) as u64;
            (spec.size.0.div_ceil(page), output.div_ceil(page))
        });
        let sizes: Vec<(u64, u64)> = sizes.collect();
        let of_jobs = jobs.iter().map(|job| job.size.0.div_ceil(page) * page);
        let files = sizes.iter().map(|&(input, output)| (input + output) * page).chain(of_jobs).sum();
        if files > capacity {
            return Err(RunError::TooSmall { files, capacity });
        }
        let sector = self.storage.sector().0;
        for (spec, &(input, output)) in specs.iter().zip(&sizes) {
            let own = Pcg64::seed_from_u64(random.next_u64());
            let next = self.processes.last().map_or(0, |last: &Process| last.files_end);
            let mut places =
                Places { sectors: capacity / sector, sectors_per_page: page / sector, random, next };
            let piece = spec.pieces.map(|piece| piece.0 / page);
            self.layouts.push(places.place(input, spec.place, piece));
            let file = self.cache.add_file(input);
            let output = (output > 0).then(|| {
                self.layouts.push(places.place(output, None, None));
                self.cache.add_file(output)
            });
            self.processes.push(Process::new(spec, Program::new(spec, own), file, output, places.next));
            self.fetchers.push(None);
            if spec.cached {
                for page in 0..input {
                    self.cache.insert(file, page, State::Clean, false);
                }
            }
        }
        let next = self.processes.last().map_or(0, |last: &Process| last.files_end);
        self.place_jobs(jobs, next, random);
        self.reading = vec![(0, Nanos::ZERO, Nanos::ZERO); self.layouts.len()];
        self.clusters = vec![Clusters::default(); self.layouts.len()];
        Ok(())
    }
}

fn storage(scenario: &Scenario, drive: Option<&DriveSpec>, random: &mut Pcg64) -> Result<Storage, RunError> {
    if let Some(text) = &scenario.drive.fixed {
        let spec: FixedSpec = text.parse().map_err(|error: sakiyomi_drive::fixed::FixedSpecError| {
            SpecError::Impossible { key: "drive.fixed".to_owned(), problem: error.to_string() }
        })?;
        return Ok(Storage::Fixed(Box::new(Fixed::new(spec, random.next_u64()))));
    }
    let Some(drive) = drive else {
        let problem = "the drive that it names was not given".to_owned();
        return Err(SpecError::Impossible { key: "drive.model".to_owned(), problem }.into());
    };
    let mut spec = drive.clone();
    for (key, value) in &scenario.drive.set {
        spec.set(key, value)?;
    }
    let mut drive = Drive::new(&spec)?;
    drive.turn_spindle(Nanos(random.next_u64() % drive.revolution().0));
    Ok(Storage::Drive(Box::new(drive)))
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
