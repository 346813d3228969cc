//! The CPU time of each case: user, system, and kernel threads.

use super::{row_label, rows_panel};
use crate::chart::axis::Axis;
use crate::chart::frame::{Frame, Key, KeyShape, PanelFrame};
use crate::chart::plot::{Plot, Shape, Stroke};
use crate::chart::{Chart, palette};
use crate::number::{count, whole_percent};
use crate::result::ProbeCase;
use crate::result::{Group, limit_name};

/// Utilization from which the CPU limits reads (Ueda 2013, figure 1).
const BUSY_RATIO: f64 = 0.7;
/// Radius of the dot of the busiest thread, in pixels.
const DOT_RADIUS: i64 = 8;
const BUSY: &str = "70 % of a core";
const USERS: [&str; 3] = ["user", "system", "kernel threads"];

pub(super) fn chart(groups: &[Group<'_>], cores: u64) -> Chart {
    let title = match cores {
        0 => "time over elapsed time; 100 % is one core".to_owned(),
        1 => "of the machine's only core".to_owned(),
        cores => format!("of one core; the machine has {}", count(cores)),
    };
    let cases = || groups.iter().flat_map(|group| &group.cases);
    let x = Axis::cores(&title, cases().flat_map(|case| [used(case), case.busiest_thread_ratio]));
    let panels: Vec<PanelFrame> = groups.iter().map(|group| rows_panel(group, x.clone())).collect();
    let frame = Frame {
        name: "cpu",
        title: "CPU by method",
        keys: keys(),
        panels,
        beside: cases().map(|case| figure(case)).collect(),
    };
    let drawing = frame.draw(|index, plot| draw(&groups[index], &x, plot));
    Chart::new(
        &frame,
        "A thread cannot use more than one core: if the busiest thread is near 100 %, the CPU is the \
         limit, however many cores are idle. Ueda (2013) observed that the CPU limits fast storage from \
         70 % of a core on.",
        drawing,
    )
}

fn keys() -> Vec<Key> {
    let users = USERS.into_iter().zip(palette::CPU);
    let mut keys: Vec<Key> = users.map(|(label, color)| Key::area(label, color)).collect();
    keys.push(Key::new("busiest thread", palette::INK, KeyShape::Disc));
    keys.push(Key::line(BUSY, palette::BUSY));
    keys
}

/// Returns the total CPU use of a case, in cores.
fn used(case: &ProbeCase) -> f64 {
    parts(case).iter().sum()
}

fn parts(case: &ProbeCase) -> [f64; 3] {
    [case.user_ratio, case.system_ratio, case.kernel_threads_ratio]
}

/// Returns the text beside a bar: the bar's length, the dot's position, the verdict.
fn figure(case: &ProbeCase) -> String {
    format!(
        "{}, thread {}, {}",
        whole_percent(used(case)),
        whole_percent(case.busiest_thread_ratio),
        limit_name(case.verdict)
    )
}

fn draw(group: &Group<'_>, x: &Axis, plot: &mut Plot<'_>) {
    plot.line([0.0, 1.0].map(|y| (x.place(BUSY_RATIO), y)), Stroke::new(palette::BUSY, 3), BUSY);
    for (row, case) in group.cases.iter().enumerate() {
        let bar = plot.bar(row);
        let label = group.label(case);
        plot.row_label(row, &row_label(group, case), &figure(case));
        let mut end = 0.0;
        let users = USERS.into_iter().zip(palette::CPU).zip(parts(case));
        for ((user, color), ratio) in users.filter(|&(_, ratio)| ratio > 0.0) {
            let corners = [(x.place(end), bar.bottom), (x.place(end + ratio), bar.top)];
            plot.rectangle(corners, color, &format!("{label}: {user} {}", whole_percent(ratio)));
            end += ratio;
        }
        let busiest = x.place(case.busiest_thread_ratio);
        let of_thread = whole_percent(case.busiest_thread_ratio);
        let name = if case.busiest_thread.is_empty() { "" } else { &*format!(" ({})", case.busiest_thread) };
        let words = format!("{label}: busiest thread{name} {of_thread}");
        plot.point((busiest, bar.middle), Shape::Disc, DOT_RADIUS, palette::INK, &words);
        let behind_dot = busiest + plot.width_of(DOT_RADIUS as f64);
        plot.figure(row, x.place(used(case)).max(behind_dot), &figure(case));
    }
}
