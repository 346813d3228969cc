//! Queue fields: depth and scheduling policy.

use sakiyomi_model::Nanos;

use super::fields::{DiskFields, QueueFields};
use super::syntax::{Block, Fault};
use crate::spec::{QueuePolicy, QueueSpec};

/// Commands of a drive without a limit of its own: as many as a drive can have.
const DEPTH_MAX: u32 = 256;

/// Translates depth and policy.
pub(super) fn queue(
    disk: &DiskFields,
    block: &Block,
    warnings: &mut Vec<String>,
) -> Result<QueueSpec, Fault> {
    let fields = QueueFields::read(block, warnings)?;
    let by_address = |policy| (policy, Some("distances are counted in cylinders here, not in addresses"));
    // The numbers are those of table 1 of the manual.
    let (policy, difference) = match fields.policy.value {
        1 => (QueuePolicy::Fcfs, None),
        2 => by_address(QueuePolicy::Look),
        3 => by_address(QueuePolicy::CLook),
        4 => by_address(QueuePolicy::Sstf),
        5 => (QueuePolicy::Look, None),
        6 => (QueuePolicy::CLook, None),
        7 => (QueuePolicy::Sstf, None),
        8 => (QueuePolicy::Sptf, None),
        other => {
            return Err(fields.policy.fault(format!(
                "{other} is not modeled; expected 1 (FCFS), 2 to 4 or 5 to 7 (elevator, cyclic elevator, SSTF; by \
                 address or by cylinder) or 8 (SPTF)"
            )));
        }
    };
    warnings.extend(difference.map(|difference| fields.policy.warning(difference)));
    if fields.cylinder_mapping.value != 0 && !matches!(policy, QueuePolicy::Fcfs | QueuePolicy::Sptf) {
        warnings.push(fields.cylinder_mapping.warning("the policy knows the true cylinders"));
    }
    if fields.timeout_scheme.value != 0 {
        let (after, by) = (fields.timeout.value, fields.timeout_policy.value);
        warnings.push(fields.timeout_scheme.warning(format!(
            "a wait of {after} s gives no priority (then by policy {by}); set queue.age_limit instead"
        )));
    }
    if fields.priority_scheme.value != 0 {
        let by = fields.priority_policy.value;
        warnings.push(
            fields
                .priority_scheme
                .warning(format!("all commands have the same priority; policy {by} is ignored")),
        );
    }
    if fields.sequential_scheme.value != 0 {
        let (most, gap) = (fields.concat_max.value, fields.sequential_gap_max.value);
        warnings.push(
            fields
                .sequential_scheme
                .warning(format!("sequential commands are not merged (up to {most} sectors, {gap} apart)")),
        );
    }
    if disk.queue_length.value.0.is_none() {
        let most = format!("no limit; the drive accepts {DEPTH_MAX} commands");
        warnings.push(disk.queue_length.warning(most));
    }
    let depth = disk.queue_length.value.0.unwrap_or(DEPTH_MAX).max(1);
    // DiskSim's policies have no limit unless the file sets one.
    let age_limit = Nanos::ZERO;
    Ok(QueueSpec { depth, policy, age_limit, ..QueueSpec::default() })
}
