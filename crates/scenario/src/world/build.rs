//! Construction of the world at time 0 from an experiment, and addition of workloads.

use std::collections::BTreeSet;

use std::sync::Arc;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_drive::Disk;
use sakiyomi_drive::fixed::{Fixed, FixedSpec};
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::{Bytes, Device, Nanos, StreamId};
use sakiyomi_prefetch::{Controller, Limit};
use sakiyomi_regulate::{Owner, RegulatedDevice, measure};

use super::thread::Thread;
use super::workloads::WorkloadState;
use super::{RunError, World};
use crate::cache::{PageCache, State};
use crate::cores::Cores;
use crate::file::File;
use crate::layout::Places;
use crate::measure::Measure;
use crate::queue::Queue;
use crate::spec::{Distance, PrefetchSpec, RegulateSpec, Scenario, SpecError};
use crate::storage::Storage;
use crate::workload::{Caching, FileSetup, Setup, Workload};
use crate::writeback::WriteBack;

/// Seed of the random times of the storage on which its profile is measured.
const PROFILE_SEED: u64 = 1;

impl<'a> World<'a> {
    /// Creates a world without workloads, prepared for those in `setups`.
    pub(super) fn new(
        scenario: &Scenario,
        drive: Option<&DriveSpec>,
        setups: &[Setup],
        random: &mut Pcg64,
    ) -> Result<World<'a>, RunError> {
        let storage = storage(scenario, drive, random)?;
        let regulate = regulate(scenario, setups);
        let depth = storage.depth();
        if let Some(asked) = regulate.as_ref().and_then(|spec| spec.depth).filter(|&asked| asked > depth) {
            let problem =
                format!("the device takes {depth} requests at once, and not {asked}; ask for no more");
            return Err(SpecError::Impossible { key: "regulate.depth".to_owned(), problem }.into());
        }
        let (memory, page) = (&scenario.memory, scenario.memory.page.0);
        let files =
            setups.iter().flat_map(|setup| &setup.files).map(|file| file.size.0.div_ceil(page) * page);
        let (files, capacity) =
            (files.fold(0, u64::saturating_add), storage.capacity().to_bytes(storage.sector()).0);
        if files > capacity {
            return Err(RunError::TooSmall { files, capacity });
        }
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
            cache: PageCache::new(memory.size.0.div_ceil(page) as usize, memory.replacement),
            write_back: WriteBack::new(memory),
            cores: Cores::new(scenario.cpu.cores, &scenario.machine),
            workloads: Vec::new(),
            threads: Vec::new(),
            files: Vec::new(),
            next_place: 0,
            controller: controller(&scenario.prefetch, memory.size),
            fetchers: Vec::new(),
            followed: BTreeSet::new(),
            done: Vec::new(),
            until: scenario.run.until,
            measure: regulate.as_ref().map(|spec| Measure::new(&scenario.run, spec.decided_by())),
            timings: Vec::new(),
            device: match &regulate {
                Some(spec) if spec.has_profile() => {
                    let mut model = self::storage(scenario, drive, &mut Pcg64::seed_from_u64(PROFILE_SEED))?;
                    let profile = Arc::new(measure(&mut model));
                    RegulatedDevice::with_profile(storage, spec.settings(depth), profile, 0.0)
                }
                Some(spec) => RegulatedDevice::new(storage, spec.settings(depth)),
                None => RegulatedDevice::unregulated(storage),
            },
        };
        world.device.keep_timings();
        Ok(world)
    }

    /// Adds a workload: its files are placed after the existing ones, and its threads are numbered after the existing
    /// ones.
    pub(super) fn add(
        &mut self,
        setup: Setup,
        workload: Box<dyn Workload + 'a>,
        random: &mut Pcg64,
    ) -> Result<(), RunError> {
        let number = self.workloads.len();
        let (threads, files) = (self.threads.len(), self.files.len());
        self.threads.extend(setup.threads.iter().map(|thread| Thread::new(number, thread.is_urgent)));
        setup.files.iter().for_each(|file| self.place_file(file, StreamId(number as u32), random));
        if let Some(measure) = &mut self.measure {
            measure.add(&setup.name, setup.rate);
        }
        if let Some(rate) = setup.rate {
            let given = self.device.set_rate(Nanos::ZERO, Owner(number as u32), rate);
            given.map_err(|error| RunError::Rate { name: setup.name.clone(), error })?;
        }
        let (threads, files) = ((threads, self.threads.len()), (files, self.files.len()));
        self.workloads.push(WorkloadState::new(setup, workload, threads, files));
        Ok(())
    }

    fn place_file(&mut self, spec: &FileSetup, owner: StreamId, random: &mut Pcg64) {
        let page = self.page_bytes;
        let pages = spec.size.0.div_ceil(page);
        let (sectors, sector, next) = (self.device.capacity().0, self.device.sector().0, self.next_place);
        let mut places = Places { sectors, sectors_per_page: page / sector, random, next };
        let layout = places.place(pages, spec.place, spec.pieces.map(|piece| piece.0 / page));
        self.next_place = places.next;
        // The pages of a file that is only read bypassing the page cache are never looked up.
        let is_uncached = spec.caching == Caching::Bypassed && self.controller.is_none();
        let file = self.cache.add_file(if is_uncached { 0 } else { pages });
        let window_factor = if spec.is_sequential { 2 } else { 1 };
        self.files.push(File::new(layout, owner, spec.size.0, spec.is_followed, window_factor));
        self.fetchers.push(None);
        if spec.caching == Caching::Resident {
            (0..pages).for_each(|page| _ = self.cache.insert(file, page, State::Clean, false));
        }
    }
}

/// Returns the parameters of regulation, if there may be regulated workloads.
fn regulate(scenario: &Scenario, setups: &[Setup]) -> Option<RegulateSpec> {
    let has_rates = setups.iter().any(|setup| setup.rate.is_some());
    scenario.regulate.clone().or_else(|| has_rates.then(RegulateSpec::default))
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
    let mut drive = Disk::new(&spec)?;
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
        let event = sakiyomi_prefetch::Event::Memory { bytes: room.0 };
        controller.on(Nanos::ZERO, event, &mut Vec::new());
    }
    Some(controller)
}
