//! Invariants of every calibration that cost models rely on.

use sakiyomi_io::engine::DEPTH_MAX;

use super::{Calibration, Cost, DepthCost, DeviceCosts, Point};

impl Calibration {
    /// Returns the reason why the calibration is unusable, if it is.
    pub(super) fn fault(&self) -> Option<String> {
        let cores = self
            .cores
            .iter()
            .flat_map(|core| [core.hop_ns, core.hop_min_ns, core.wake_ns, core.wake_min_ns, core.waker_ns]);
        if !cores.flatten().all(is_cost) {
            return Some("a cost between cores is not a number from 0 on".to_owned());
        }
        self.devices.iter().find_map(DeviceCosts::fault)
    }
}

impl DeviceCosts {
    fn fault(&self) -> Option<String> {
        for (index, cost) in self.costs.iter().enumerate() {
            let name = || format!("{} by {} on {}", cost.op, cost.engine.name(), self.target);
            if self.costs[..index].iter().any(|before| before.key() == cost.key()) {
                return Some(format!("{} is there twice", name()));
            }
            if let Some(fault) = cost.fault() {
                return Some(format!("{}: {fault}", name()));
            }
        }
        None
    }
}

impl Cost {
    fn fault(&self) -> Option<&'static str> {
        if self.depths.is_empty() {
            return Some("there is no depth");
        }
        if !self.depths.is_sorted_by(|a, b| a.depth < b.depth) {
            return Some("the depths do not ascend");
        }
        self.depths.iter().find_map(DepthCost::fault)
    }
}

impl DepthCost {
    fn fault(&self) -> Option<&'static str> {
        match () {
            () if !(1..=DEPTH_MAX).contains(&self.depth) => Some("a depth is not from 1 to 1024"),
            () if self.points.is_empty() => Some("a depth has no block size"),
            () if !self.points.is_sorted_by(|a, b| a.block_bytes < b.block_bytes) => {
                Some("the block sizes do not ascend")
            }
            () if !(is_cost(self.cpu_ns_per_op) && is_cost(self.cpu_ns_per_byte)) => {
                Some("a CPU time is below 0")
            }
            () if !self.points.iter().all(Point::is_sound) => Some("a figure is below 0, or too large"),
            () => None,
        }
    }
}

impl Point {
    /// Returns whether its figures are usable.
    pub(super) fn is_sound(&self) -> bool {
        let throughput = self.throughput_bytes_per_s;
        self.block_bytes > 0
            && throughput > 0.0
            && [throughput, self.cpu_ns_per_op, self.kernel_threads_cpu_ns_per_op].into_iter().all(is_cost)
    }
}

/// Largest valid figure: far beyond any machine, and small enough that products of two of them are finite.
const FIGURE_MAX: f64 = 1e18;

fn is_cost(value: f64) -> bool {
    (0.0..=FIGURE_MAX).contains(&value)
}
