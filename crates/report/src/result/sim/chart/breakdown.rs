//! Parts of a command's time in the device, by class.

use sakiyomi_model::Class;

use super::Side;
use crate::chart::bars::{self, Bars, Row};
use crate::chart::{Chart, palette};
use crate::label;
use crate::number::duration;
use crate::result::ClassBreakdown;

const LABELS: [&str; 5] = ["queue", "overhead", "seek", "rotation", "transfer"];

pub(super) fn chart(sides: &[Side<'_>]) -> Chart {
    let rows = classes(sides).into_iter().map(|(side, class)| {
        let parts = [class.queue, class.overhead, class.seek, class.rotation, class.transfer];
        Row { label: row_label(side, class), parts: parts.to_vec(), figure: duration(class.total_ns()) }
    });
    bars::chart(Bars {
        name: "breakdown",
        title: "Breakdown of the time in the device",
        caption: "Means by class. A long queue part is time spent behind other commands and read-ahead."
            .to_owned(),
        x_title: "mean time of a command",
        parts: LABELS.into_iter().zip(palette::PARTS).collect(),
        rows: rows.collect(),
    })
}

/// Returns the classes in the order of reports, those of a comparison next to each other.
fn classes<'a>(sides: &[Side<'a>]) -> Vec<(&'static str, &'a ClassBreakdown)> {
    let mut rows: Vec<(&'static str, &'a ClassBreakdown)> = (sides.iter())
        .flat_map(|side| side.result.breakdown_mean_ns.iter().map(|class| (side.name, class)))
        .filter(|(_, class)| class.commands > 0)
        .collect();
    let position = |class: &ClassBreakdown| Class::ALL.iter().position(|known| known.name() == class.class);
    rows.sort_by_key(|(_, class)| position(class).unwrap_or(usize::MAX));
    rows
}

fn row_label(side: &str, class: &ClassBreakdown) -> String {
    let name = label::class_named(&class.class).map_or(&*class.class, |class| label::class(class));
    if side.is_empty() { name.to_owned() } else { format!("{name}  {side}") }
}
