//! What a result says, in words: the first lines of a page and of the terminal text.

mod live;
mod probe;
mod run;

use sakiyomi_model::{Class, ReadClass};

use crate::label;
use crate::number::{self, count, duration, percent, percent_exact};
use crate::schema::{SimResult, SweepPoint, SweepResult, ValidateResult};
use crate::totals::same_workload;

pub(crate) use live::{mount, mount_title, top};
pub(crate) use probe::{Finding, probe};
pub(crate) use run::{command_line, figures as run_figures, reason as run_reason, run, title as run_title};

/// A space at which no line is broken.
pub(crate) const NO_BREAK_SPACE: char = '\u{a0}';

/// What one simulation says.
pub(crate) fn sim(result: &SimResult) -> Vec<String> {
    if result.commands == 0 {
        return vec!["No command was counted.".to_owned()];
    }
    let mut sentences = Vec::new();
    if result.reads == 0 {
        sentences.push("No reads.".to_owned());
    } else {
        sentences.push(format!("{} of the reads hit.", percent(result.hit_ratio)));
        sentences.extend(miss_cost(result));
    }
    let response = &result.response_ns;
    sentences.push(format!(
        "A command takes {} on average, the worst {}.",
        duration(response.mean),
        duration(response.max)
    ));
    sentences.push(format!("The disk is idle {} of the time.", percent(result.disk_time_ns.idle_ratio())));
    sentences
}

/// What a miss costs, held against a full hit (Hosogi 2013, section 3: 1 to 209 times the slowest hit).
fn miss_cost(result: &SimResult) -> Option<String> {
    let miss = mean_device_ns(result, |class| !class.is_hit())?;
    let hit = mean_device_ns(result, |class| class == ReadClass::FullHit);
    let against = match hit {
        Some(hit) if hit > 0.0 => format!(", {} times a full hit", number::times(miss / hit)),
        _ => String::new(),
    };
    Some(format!("A miss costs {} on average{against}.", duration(miss.round() as u64)))
}

/// Mean time in the device of the reads of some classes; `None` where there were none.
fn mean_device_ns(result: &SimResult, wanted: impl Fn(ReadClass) -> bool) -> Option<f64> {
    let (mut commands, mut total_ns) = (0.0, 0.0);
    for row in &result.breakdown_mean_ns {
        if let Some(Class::Read(class)) = label::class_named(&row.class)
            && wanted(class)
        {
            commands += row.commands as f64;
            total_ns += row.commands as f64 * row.total_ns() as f64;
        }
    }
    (commands > 0.0).then(|| total_ns / commands)
}

/// What B changes against A.
pub(crate) fn compare(a: &SimResult, b: &SimResult) -> Vec<String> {
    if a.commands == 0 || b.commands == 0 {
        return vec![
            "No command was counted in at least one of the runs: there is nothing to compare.".to_owned(),
        ];
    }
    let mut sentences = Vec::new();
    if !same_workload(a, b) {
        sentences.push("A and B did different work, so that nothing is called better or worse.".to_owned());
    }
    if a.reads > 0 && b.reads > 0 {
        sentences.push(format!(
            "B hits {} of the reads against {} in A.",
            percent(b.hit_ratio),
            percent(a.hit_ratio)
        ));
    }
    let (mean_a, mean_b) = (a.response_ns.mean, b.response_ns.mean);
    let (worst_a, worst_b) = (a.response_ns.max, b.response_ns.max);
    let opposed = mean_a.cmp(&mean_b) == worst_b.cmp(&worst_a) && mean_a != mean_b;
    sentences.push(format!(
        "The mean response {}, {} the worst {}.",
        movement(mean_a, mean_b, duration),
        if opposed { "but" } else { "and" },
        movement(worst_a, worst_b, duration)
    ));
    sentences.push(format!("The number of seeks {}.", movement(a.seeks.total(), b.seeks.total(), count)));
    sentences.push(format!(
        "The disk is idle {} of the time against {} in A.",
        percent(b.disk_time_ns.idle_ratio()),
        percent(a.disk_time_ns.idle_ratio())
    ));
    sentences
}

/// `falls from 5.12 ms to 2.48 ms (−51.6 %)`.
fn movement(from: u64, to: u64, text: impl Fn(u64) -> String) -> String {
    if from == to {
        return format!("stays at {}", text(from));
    }
    let verb = if to < from { "falls" } else { "rises" };
    let change = match from {
        0 => String::new(),
        _ if to / from >= 10 => format!(" ({} times)", number::times(to as f64 / from as f64)),
        _ => {
            let sign = if to < from { "−" } else { "+" };
            format!(" ({sign}{})", percent(to.abs_diff(from) as f64 / from as f64))
        }
    };
    format!("{verb} from {} to {}{change}", text(from), text(to))
}

/// What an exploration found.
pub(crate) fn sweep(result: &SweepResult) -> Vec<String> {
    let front: Vec<&SweepPoint> = result.points.iter().filter(|point| point.undominated).collect();
    let Some(first) = front.first() else {
        return vec!["No settings were tried.".to_owned()];
    };
    let are = if front.len() == 1 { "is" } else { "are" };
    let mut sentences =
        vec![format!("{} of {} combinations {are} undominated.", front.len(), result.points.len())];
    match result.repeated() {
        0 => {}
        1 => sentences.push("One combination comes to the same drive as an earlier one.".to_owned()),
        more => sentences.push(format!("{more} combinations come to the same drive as an earlier one.")),
    }
    let hits =
        front.iter().fold(first, |best, point| if point.hit_ratio > best.hit_ratio { point } else { best });
    let mean = front.iter().min_by_key(|point| point.response_mean_ns).unwrap_or(first);
    let worst = front.iter().min_by_key(|point| point.response_max_ns).unwrap_or(first);
    sentences.push(format!(
        "The highest hit rate, {}, is that of {}.",
        percent(hits.hit_ratio),
        settings(hits)
    ));
    sentences.push(format!(
        "The shortest mean response, {}, is that of {}.",
        duration(mean.response_mean_ns),
        settings(mean)
    ));
    sentences.push(format!(
        "The shortest worst response, {}, is that of {}.",
        duration(worst.response_max_ns),
        settings(worst)
    ));
    sentences
}

/// What a validation says.
pub(crate) fn validate(result: &ValidateResult) -> Vec<String> {
    if result.judged == 0 {
        return vec!["No request was judged.".to_owned()];
    }
    let (free, anchored) = (&result.free, &result.anchored);
    let mut sentences = vec![
        format!(
            "The distribution of the simulated times is {} of the measured mean away, freely replayed, and {} \
             anchored.",
            percent(free.rms_ratio),
            percent(anchored.rms_ratio)
        ),
        format!(
            "Half of the requests are within {} of their measured time, anchored within {}.",
            duration(free.request_error_ns.median),
            duration(anchored.request_error_ns.median)
        ),
    ];
    if let Some(labels) = &result.labels {
        sentences.push(format!(
            "On hit or miss the simulation agrees with the drive in {} of the reads, where the rule that a hit starts \
             at the end of the last read agrees in {}.",
            percent_exact(labels.anchored.agreement_ratio),
            percent_exact(labels.baseline_agreement_ratio)
        ));
    }
    sentences
}

/// How much of the trace was judged: `10,000 requests judged`, `3,200 of 7,852 requests judged: issued from 2 d on`.
pub(crate) fn judged(result: &ValidateResult) -> String {
    let from = (result.from_ns > 0).then(|| format!("from {} on", duration(result.from_ns)));
    let until = result.until_ns.map(|until| format!("before {}", duration(until)));
    let bounds: Vec<String> = from.into_iter().chain(until).collect();
    if bounds.is_empty() {
        return format!("{} requests judged", count(result.judged));
    }
    let (judged, all) = (count(result.judged), count(result.requests));
    format!("{judged} of {all} requests judged: issued {}", bounds.join(" and "))
}

/// The values of a point as one name.
pub(crate) fn settings(point: &SweepPoint) -> String {
    if point.values.is_empty() { "the defaults".to_owned() } else { point.values.join(" · ") }
}

/// The sentences as one text in which no line breaks between a number and its unit.
pub(crate) fn paragraph(sentences: &[String]) -> String {
    let mut text = String::new();
    for c in sentences.join(" ").chars() {
        let after_digit = text.ends_with(|last: char| last.is_ascii_digit());
        text.push(if c == ' ' && after_digit { NO_BREAK_SPACE } else { c });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::schema::ProbeResult;

    #[test]
    fn verdicts_read_well() {
        let (short, long) = (sample::result("short"), sample::result("long"));
        let validation = sample::validation().result;
        let text =
            [sim(&long), compare(&short, &long), sweep(&sample::sweep().result), validate(&validation)]
                .map(|sentences| sentences.join("\n"))
                .join("\n\n");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn findings_read_well() {
        let findings = probe(&sample::probe().result);
        let text: Vec<String> =
            findings.iter().map(|of| format!("{}\n{}", of.about, of.sentences.join("\n"))).collect();
        insta::assert_snapshot!(text.join("\n\n"));
    }

    #[test]
    fn an_empty_result_has_a_verdict() {
        let empty = SimResult::default();
        assert_eq!(sim(&empty), ["No command was counted."]);
        assert_eq!(compare(&empty, &empty).len(), 1);
        assert_eq!(sweep(&SweepResult::default()), ["No settings were tried."]);
        assert_eq!(validate(&ValidateResult::default()), ["No request was judged."]);
        assert_eq!(probe(&ProbeResult::default())[0].sentences, ["No method was measured."]);
    }
}
