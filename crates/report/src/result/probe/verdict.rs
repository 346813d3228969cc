//! Findings of a probe: for each target and kind of access the recommended case and its limit.

use super::groups::{Choice, Group, groups, limit_name, phrase};
use super::{ProbeResult, ProbeVerdict};
use crate::number::{cpu_per_gb, rate};
use crate::section::Finding;
use crate::words;

/// Returns one finding for each target and kind of access.
pub(super) fn findings(result: &ProbeResult) -> Vec<Finding> {
    let findings: Vec<Finding> = groups(result).iter().map(finding).collect();
    if findings.is_empty() {
        return Finding::whole(vec!["No method was measured.".to_owned()]);
    }
    findings
}

fn finding(group: &Group<'_>) -> Finding {
    let mut sentences = Vec::new();
    if let Some(choice) = group.choice {
        sentences.push(fastest(group, choice));
        if !choice.fastest.reason.is_empty() {
            sentences.push(choice.fastest.reason.clone());
        }
        sentences.extend(cheapest(group, choice));
    }
    if group.cases.len() > 1 || group.choice.is_none() {
        sentences.push(limits(group));
    }
    Finding { about: group.name.clone(), sentences, ..Finding::default() }
}

fn fastest(group: &Group<'_>, Choice { fastest, .. }: Choice<'_>) -> String {
    let limit = match fastest.verdict {
        ProbeVerdict::Undecided => "; what limits it could not be decided".to_owned(),
        limit => format!(", and {}", limit_name(limit)),
    };
    let name = phrase(group, fastest);
    format!("{name} is fastest, {}{limit}.", rate(fastest.throughput_bytes_per_s))
}

fn cheapest(group: &Group<'_>, Choice { fastest, cheapest }: Choice<'_>) -> Option<String> {
    let cpu = cpu_per_gb(cheapest.cpu_ns_per_byte);
    if !std::ptr::eq(fastest, cheapest) {
        return Some(format!(
            "{} is within 5 % and takes the least CPU, {cpu} s/GB against {}.",
            phrase(group, cheapest),
            cpu_per_gb(fastest.cpu_ns_per_byte)
        ));
    }
    (group.cases.len() > 1).then(|| format!("Nothing within 5 % of it takes less CPU than its {cpu} s/GB."))
}

/// Describes the limits: `Of 9 cases 6 are storage-bound, 2 CPU-bound and 1 undecided.`
fn limits(group: &Group<'_>) -> String {
    let verdicts = group.verdicts();
    if let [(cases, limit)] = verdicts[..] {
        return match cases {
            1 => format!("The only case is {}.", limit_name(limit)),
            2 => format!("Both cases are {}.", limit_name(limit)),
            _ => format!("All {cases} cases are {}.", limit_name(limit)),
        };
    }
    let count = |(index, &(cases, limit)): (usize, &(usize, ProbeVerdict))| {
        let verb = match (index, cases) {
            (0, 1) => " is",
            (0, _) => " are",
            _ => "",
        };
        format!("{cases}{verb} {}", limit_name(limit))
    };
    let counts: Vec<String> = verdicts.iter().enumerate().map(count).collect();
    format!("Of {} cases {}.", group.cases.len(), words::list(&counts))
}
