//! Merges measurements of several runs on one device into one calibration.

use std::collections::BTreeMap;

use super::{Calibration, Cost, DepthCost, DeviceCosts, fit};

impl Calibration {
    /// Adds the measurements of an older calibration of the same machine, for the devices that this one contains as
    /// well. Points measured by both keep this one's figures.
    ///
    /// A calibration of another machine or kernel adds nothing.
    pub fn complete_with(&mut self, older: &Calibration) {
        if older.machine != self.machine {
            return;
        }
        for costs in &mut self.devices {
            if let Some(older) = older.device(&costs.device) {
                costs.complete_with(older);
            }
        }
        if self.cores.is_empty() {
            self.cores.clone_from(&older.cores);
        }
    }
}

impl DeviceCosts {
    fn complete_with(&mut self, older: &DeviceCosts) {
        for cost in &older.costs {
            match self.costs.iter_mut().find(|known| known.key() == cost.key()) {
                Some(known) => known.complete_with(cost),
                None => self.costs.push(cost.clone()),
            }
        }
        self.costs.sort_by_key(Cost::key);
    }
}

impl Cost {
    fn complete_with(&mut self, older: &Cost) {
        let mut depths: BTreeMap<usize, DepthCost> =
            older.depths.iter().map(|depth| (depth.depth, depth.clone())).collect();
        for depth in self.depths.drain(..) {
            let points = depths.remove(&depth.depth).map_or(Vec::new(), |older| older.points);
            // Later entries of a map replace earlier ones.
            let points: BTreeMap<u64, _> =
                points.into_iter().chain(depth.points).map(|point| (point.block_bytes, point)).collect();
            depths.insert(depth.depth, DepthCost::fitted(depth.depth, points.into_values().collect()));
        }
        self.depths = depths.into_values().collect();
    }
}

impl DepthCost {
    /// Returns the costs at a depth, with the CPU time fitted to points in ascending order of block size.
    pub(super) fn fitted(depth: usize, points: Vec<super::Point>) -> DepthCost {
        let per_op: Vec<(f64, f64)> =
            points.iter().map(|point| (point.block_bytes as f64, point.cpu_ns_per_op)).collect();
        let (cpu_ns_per_op, cpu_ns_per_byte) = fit::line(&per_op);
        DepthCost { depth, cpu_ns_per_op, cpu_ns_per_byte, points }
    }
}
