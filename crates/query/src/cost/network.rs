//! The time of work that alternates between cores and a device: a closed queueing network.
//!
//! `N` units of work circulate between a station of `p` cores and a device (Reiser and Lavenberg, "Mean-Value Analysis of
//! Closed Multichain Queuing Networks", JACM 27, 1980). The network has a product form, and its throughput is
//! `G(N - 1) / G(N)` with the normalization constant (Buzen, CACM 16, 1973)
//!
//! ```text
//! G(n) = D G(n - 1) + C^n / (b(1) b(2) … b(n)),  G(0) = 1,  b(i) = min(i, p)
//! ```
//!
//! for a device of demand `D` and cores of demand `C`. With the demands of all units as `C` and `D`, the time of all is
//! `G(N) / G(N - 1)`: `C + D` for one unit, and `max(C / p, D)` in the limit of many.

/// A closed network of cores and a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    /// CPU time of all units, in nanoseconds.
    pub(crate) cpu_ns: f64,
    /// Time of the device for all units, in nanoseconds.
    pub(crate) device_ns: f64,
    /// Number of cores, at least 1.
    pub(crate) servers: usize,
    /// Number of units in flight, at least 1.
    pub(crate) units: usize,
}

/// Maximum number of units in flight that are distinguished: with more, the time is within a few percent of its limit.
const UNITS_MAX: usize = 256;

impl Network {
    /// Returns the time until all units are done, in nanoseconds: never less than that of the device or the cores.
    pub(crate) fn time_ns(&self) -> f64 {
        let scale = self.cpu_ns.max(self.device_ns);
        if scale <= 0.0 {
            return 0.0;
        }
        let (cpu, device) = (self.cpu_ns / scale, self.device_ns / scale);
        let servers = self.servers.max(1);
        let bound = device.max(cpu / servers as f64);
        let (mut before, mut all, mut only_cpu) = (0.0, 1.0, 1.0);
        for unit in 1..=self.units.clamp(1, UNITS_MAX) {
            only_cpu *= cpu / unit.min(servers) as f64;
            before = all;
            all = device * all + only_cpu;
            // Ratios matter only; powers of small numbers would vanish.
            if all < f64::MIN_POSITIVE.sqrt() {
                (before, all, only_cpu) = (before / all, 1.0, only_cpu / all);
            }
        }
        scale * (all / before).max(bound)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(cpu_ns: f64, device_ns: f64, servers: usize, units: usize) -> f64 {
        Network { cpu_ns, device_ns, servers, units }.time_ns()
    }

    #[test]
    fn one_unit_alternates_and_many_overlap() {
        assert_eq!(time(3.0, 5.0, 2, 1), 8.0);
        assert!((time(3.0, 5.0, 2, 200) - 5.0).abs() < 1e-6);
        assert!((time(30.0, 5.0, 2, 200) - 15.0).abs() < 1e-6);
        assert_eq!([time(0.0, 5.0, 2, 3), time(8.0, 0.0, 2, 3), time(0.0, 0.0, 2, 3)], [5.0, 4.0, 0.0]);
        // Two units and one core: G(1) = 8, G(2) = 5 * 8 + 3 * 3.
        assert!((time(3.0, 5.0, 1, 2) - 49.0 / 8.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn time_is_between_the_bounds_and_falls_with_units_and_cores(
            cpu in 0.0..1e13f64, device in 0.0..1e13f64, servers in 1usize..64, units in 1usize..200,
        ) {
            let found = time(cpu, device, servers, units);
            let slack = 1.0 + 1e-9;
            prop_assert!(found * slack >= device && found * slack >= cpu / servers as f64);
            prop_assert!(found <= (cpu + device) * slack);
            prop_assert!(time(cpu, device, servers, units + 1) <= found * slack);
            prop_assert!(time(cpu, device, servers + 1, units) <= found * slack);
            prop_assert!(time(cpu * 1.1, device, servers, units) * slack >= found);
            prop_assert!(time(cpu, device * 1.1, servers, units) * slack >= found);
        }
    }
}
