//! The rates of a mount as a result.

use std::path::Path;

use sakiyomi_iorate::protocol::{Bypass, Owner, Rate, Target, View};
use sakiyomi_report::IorateResult;
use sakiyomi_report::result::{IorateBypass, IorateDevice, IorateOwner, IorateTarget};

/// Returns the present state; with an earlier sample, also the rates of change.
pub(crate) fn result(mount: &Path, view: &View, before: Option<&View>) -> IorateResult {
    let elapsed = before.map(|before| (before, view.at_ns.saturating_sub(before.at_ns)));
    let elapsed = elapsed.filter(|&(_, elapsed_ns)| elapsed_ns > 0);
    let a_second = |count: u64, elapsed_ns: u64| count as f64 / (elapsed_ns as f64 / 1e9);
    let mut device = device(view);
    if let Some((before, elapsed_ns)) = elapsed {
        let answered = view.device.requests.saturating_sub(before.device.requests);
        device.requests_per_s = Some(a_second(answered, elapsed_ns));
        let busy = view.device.busy_ns.zip(before.device.busy_ns);
        // An I/O in flight counts when it ends, or while it continues.
        device.busy_ratio =
            busy.map(|(now, then)| (now.saturating_sub(then) as f64 / elapsed_ns as f64).min(1.0));
    }
    let owners = view.owners.iter().map(|owner| {
        let ios_per_s = elapsed.map(|(before, elapsed_ns)| {
            let earlier = before.owners.iter().find(|earlier| earlier.number == owner.number);
            // The counters restart when an owner gets a rate.
            let earlier = earlier.map_or(0, |earlier| earlier.ios);
            a_second(owner.ios.checked_sub(earlier).unwrap_or(owner.ios), elapsed_ns)
        });
        IorateOwner { ios_per_s, ..self::owner(owner) }
    });
    IorateResult {
        // A collector of the result has another working directory.
        mount: std::path::absolute(mount).as_deref().unwrap_or(mount).display().to_string(),
        at_ns: view.at_ns,
        device,
        owners: owners.collect(),
        program: None,
    }
}

fn device(view: &View) -> IorateDevice {
    let device = &view.device;
    IorateDevice {
        name: device.name.clone(),
        policy: device.policy.clone(),
        service_ns: device.service_ns,
        allowance: device.allowance,
        parallel_ratio: device.parallel_ratio,
        in_device: device.in_device,
        waiting: device.waiting,
        requests: device.requests,
        busy_ns: device.busy_ns,
        requests_per_s: None,
        busy_ratio: None,
        bypass: device.bypass.as_ref().map(bypass),
    }
}

/// Converts the traffic that bypasses a mount.
pub(crate) fn bypass(bypass: &Bypass) -> IorateBypass {
    IorateBypass {
        device: bypass.device.clone(),
        requests_per_s: bypass.requests_per_s,
        share_ratio: bypass.share_ratio,
    }
}

fn owner(owner: &Owner) -> IorateOwner {
    let (rate_percent, every_ns) = match owner.rate {
        Some(Rate::Percent(percent)) => (Some(percent), None),
        Some(Rate::EveryNs(every_ns)) => (None, Some(every_ns)),
        None => (None, None),
    };
    let measured = owner.ios > 0;
    IorateOwner {
        number: owner.number,
        target: target(&owner.target),
        name: owner.name.clone(),
        rate_percent,
        every_ns,
        best_effort: owner.best_effort,
        // Not known before the device has completed its first request.
        ideal_ns: owner.ideal_ns.filter(|&ideal_ns| ideal_ns > 0),
        mean_ns: measured.then_some(owner.mean_ns),
        accuracy_ratio: owner.accuracy_ratio.filter(|_| measured),
        cov_ratio: measured.then_some(owner.cov_ratio),
        ios: owner.ios,
        late: owner.late,
        unanswered: owner.unanswered,
        ios_per_s: None,
    }
}

fn target(target: &Target) -> IorateTarget {
    match target {
        Target::Process { pid } => IorateTarget::Process { pid: *pid },
        Target::Tree { pid } => IorateTarget::Tree { pid: *pid },
        Target::Group { path } => IorateTarget::Group { path: path.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::iorate::canned::{owner, view};

    #[test]
    fn what_changes_is_told_by_the_second() {
        let mut before = view(vec![owner(1, Target::Process { pid: 7 })]);
        let mut after = before.clone();
        after.at_ns += 2_000_000_000;
        after.device.requests += 100;
        before.device.busy_ns = Some(1_000_000_000);
        after.device.busy_ns = Some(2_500_000_000);
        after.owners[0].ios += 40;
        after.owners.push(Owner { ios: 6, ..owner(2, Target::Tree { pid: 8 }) });
        let result = result(Path::new("/mnt"), &after, Some(&before));
        assert_eq!(result.device.requests_per_s, Some(50.0));
        assert_eq!(result.device.busy_ratio, Some(0.75));
        let rates: Vec<_> = result.owners.iter().map(|owner| owner.ios_per_s).collect();
        assert_eq!(rates, [Some(20.0), Some(3.0)]);
    }

    #[test]
    fn at_the_first_look_and_when_time_stands_still_nothing_is_said_of_change() {
        let seen = view(vec![owner(1, Target::Process { pid: 7 })]);
        for before in [None, Some(&seen)] {
            let result = result(Path::new("/mnt"), &seen, before);
            assert_eq!((result.device.requests_per_s, result.owners[0].ios_per_s), (None, None));
        }
    }

    #[test]
    fn who_is_counted_anew_has_no_negative_rate_and_who_did_nothing_no_mean() {
        let before = view(vec![owner(1, Target::Process { pid: 7 })]);
        let mut after = before.clone();
        after.at_ns += 1_000_000_000;
        after.owners[0].ios = 5;
        after.owners.push(Owner { ios: 0, ..owner(2, Target::Process { pid: 8 }) });
        let result = result(Path::new("/mnt"), &after, Some(&before));
        assert_eq!(result.owners[0].ios_per_s, Some(5.0));
        let new = &result.owners[1];
        assert_eq!((new.mean_ns, new.cov_ratio, new.accuracy_ratio), (None, None, None));
    }
}
