//! The CPU that each case takes, by who uses it.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::{bar, left_of_rows, rows_panel};
use crate::chart::axis::Axis;
use crate::chart::frame::{self, Drawn, Frame, Key, PanelFrame, Plot};
use crate::chart::{Chart, palette};
use crate::number;
use crate::probe::{Group, verdict};
use crate::schema::ProbeCase;

const TITLE: &str = "CPU by method";
/// Ueda (2013, figure 1) saw the CPU limit reads from 70 % of a core on.
const BUSY_RATIO: f64 = 0.7;

pub(super) fn chart(groups: &[Group<'_>], cores: u64) -> Chart {
    let title = match cores {
        0 => "time over elapsed time; 100 % is one core".to_owned(),
        1 => "of the machine's only core".to_owned(),
        cores => format!("of one core; the machine has {}", number::count(cores)),
    };
    let cases = groups.iter().flat_map(|group| &group.cases);
    let x = Axis::cores(&title, cases.flat_map(|case| [used(case), case.busiest_thread_ratio]));
    let panels: Vec<PanelFrame> = groups.iter().map(|group| rows_panel(group, x.clone())).collect();
    let rows: Vec<Axis> = panels.iter().map(|panel| panel.y.clone()).collect();
    let frame = Frame { name: "cpu", title: TITLE, keys: keys(), left: left_of_rows(&panels), panels };
    let svg = frame.draw(|index, plot| draw(&groups[index], &x, &rows[index], plot));
    Chart {
        name: "cpu",
        title: TITLE,
        caption: "A thread cannot use more than one core: where the busiest thread has come near 100 %, the CPU is \
                  the limit, however many cores are idle. From 70 % of a core on, Ueda (2013) saw the CPU limit a fast \
                  storage.",
        svg,
        time: None,
    }
}

fn keys() -> Vec<Key> {
    let users = ["user", "system", "kernel threads"].into_iter().zip(palette::CPU);
    let mut keys: Vec<Key> = users.map(|(label, colour)| Key { label, colour }).collect();
    keys.push(Key { label: "busiest thread (dot)", colour: palette::INK });
    keys.push(Key { label: "70 % of a core", colour: palette::BUSY });
    keys
}

/// All that a case uses, in cores.
fn used(case: &ProbeCase) -> f64 {
    parts(case).iter().sum()
}

fn parts(case: &ProbeCase) -> [f64; 3] {
    [case.user_ratio, case.system_ratio, case.kernel_threads_ratio]
}

fn draw(group: &Group<'_>, x: &Axis, y: &Axis, plot: &mut Plot<'_>) -> Drawn {
    for (row, case) in group.cases.iter().enumerate() {
        draw_bar(bar(y, row), case, x, plot)?;
    }
    let busy = [0.0, 1.0].map(|y| (x.place(BUSY_RATIO), y));
    plot.draw_series(std::iter::once(PathElement::new(busy, palette::BUSY.stroke_width(3))))?;
    for (row, case) in group.cases.iter().enumerate() {
        let (_, middle, _) = bar(y, row);
        let busiest = x.place(case.busiest_thread_ratio);
        plot.draw_series(std::iter::once(Circle::new((busiest, middle), 8, palette::INK.filled())))?;
        let style = frame::text(palette::INK, HPos::Left, VPos::Center);
        let text = format!("{}, {}", number::whole_percent(used(case)), verdict(case.verdict));
        let behind = x.place(used(case)).max(busiest) + 0.01;
        plot.draw_series(std::iter::once(Text::new(text, (behind, middle), style)))?;
    }
    Ok(())
}

/// The parts of a bar, one behind the other.
fn draw_bar((bottom, _, top): (f64, f64, f64), case: &ProbeCase, x: &Axis, plot: &mut Plot<'_>) -> Drawn {
    let mut end = 0.0;
    for (colour, ratio) in palette::CPU.into_iter().zip(parts(case)).filter(|&(_, ratio)| ratio > 0.0) {
        let corners = [(x.place(end), bottom), (x.place(end + ratio), top)];
        plot.draw_series(std::iter::once(Rectangle::new(corners, colour.filled())))?;
        end += ratio;
    }
    Ok(())
}
