//! A flame graph: a whole divided at each level into the parts of those above it, widths in proportion to time.

use super::Chart;
use super::axis::Axis;
use super::frame::{Frame, Key, PanelFrame};
use super::layout::{self, text_width};
use super::palette::Color;
use super::plot::{Align, Plot};
use crate::number::{duration, percent, ratio};

/// Height of a level with its gap, in pixels.
const LEVEL_HEIGHT: u32 = 62;
/// Room beside the name in a block, in pixels.
const NAME_MARGIN: f64 = 12.0;
/// Narrowest block that has a name, in pixels; its title has it in any case.
const NAMED_MIN: f64 = 48.0;

/// A path of names from the whole to a part, and its time.
pub(crate) struct Leaf {
    /// One name for each level.
    pub(crate) path: Vec<String>,
    /// In nanoseconds.
    pub(crate) time: u64,
    pub(crate) color: Color,
}

/// A flame graph.
pub(crate) struct Flame {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) caption: String,
    pub(crate) x_title: &'static str,
    /// The levels from the top down.
    pub(crate) levels: Vec<&'static str>,
    pub(crate) keys: Vec<(&'static str, Color)>,
    pub(crate) leaves: Vec<Leaf>,
}

/// A part at a level: its path, and where it begins and ends.
struct Block<'a> {
    path: &'a [String],
    from: u64,
    to: u64,
    color: Color,
}

pub(crate) fn chart(flame: Flame) -> Chart {
    let Flame { name, title, caption, x_title, levels, keys, mut leaves } = flame;
    order(&mut leaves, 0);
    let total: u64 = leaves.iter().map(|leaf| leaf.time).sum();
    let x = Axis::spans(x_title, total as f64);
    let labels: Vec<String> = levels.iter().map(|&level| level.to_owned()).collect();
    let used = |color: Color| leaves.iter().any(|leaf| leaf.color == color);
    let frame = Frame {
        name,
        title,
        keys: keys.iter().filter(|key| used(key.1)).map(|&(label, color)| Key::area(label, color)).collect(),
        panels: vec![PanelFrame {
            name: String::new(),
            x: x.clone(),
            y: Axis::rows(labels.clone()),
            height: LEVEL_HEIGHT,
        }],
        beside: Vec::new(),
    };
    let drawing = frame.draw(|_, plot| {
        for (level, label) in labels.iter().enumerate() {
            plot.row_label(level, label, "");
            for block in blocks(&leaves, level) {
                draw(&block, level, total, &x, plot);
            }
        }
    });
    Chart::new(&frame, caption, drawing)
}

/// Sorts leaves so that those with a common path lie side by side, the part with most time first.
fn order(leaves: &mut [Leaf], level: usize) {
    if leaves.first().is_none_or(|leaf| level >= leaf.path.len()) {
        return;
    }
    leaves.sort_by(|one, other| one.path[level].cmp(&other.path[level]));
    let mut parts: Vec<(u64, String)> = Vec::new();
    for part in leaves.chunk_by(|one, other| one.path[level] == other.path[level]) {
        parts.push((part.iter().map(|leaf| leaf.time).sum(), part[0].path[level].clone()));
    }
    parts.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    leaves.sort_by_key(|leaf| parts.iter().position(|(_, name)| *name == leaf.path[level]));
    leaves
        .chunk_by_mut(|one, other| one.path[level] == other.path[level])
        .for_each(|part| order(part, level + 1));
}

fn blocks(leaves: &[Leaf], level: usize) -> Vec<Block<'_>> {
    let mut at = 0;
    let mut blocks = Vec::new();
    for part in leaves.chunk_by(|one, other| one.path[..=level] == other.path[..=level]) {
        let from = at;
        at += part.iter().map(|leaf| leaf.time).sum::<u64>();
        // The color of what takes longest in it.
        let longest = part.iter().max_by_key(|leaf| leaf.time).unwrap_or(&part[0]);
        blocks.push(Block { path: &part[0].path[..=level], from, to: at, color: longest.color });
    }
    blocks
}

fn draw(block: &Block<'_>, level: usize, total: u64, x: &Axis, plot: &mut Plot<'_>) {
    let Some(name) = block.path.last().filter(|name| !name.is_empty()) else { return };
    let bar = plot.bar(level);
    let (left, right) = (x.place(block.from as f64), x.place(block.to as f64));
    let time = block.to - block.from;
    let words = block.path.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(", ");
    let title = format!("{words}: {} ({})", duration(time), percent(ratio(time, total)));
    plot.rectangle([(left, bar.top), (right, bar.bottom)], block.color, &title);
    let room = (right - left) / plot.width_of(1.0) - NAME_MARGIN;
    if room < NAMED_MIN {
        return;
    }
    // The end of a path says most.
    let short = name.rsplit('/').next().unwrap_or(name);
    let shown = [name.as_str(), short].into_iter().find(|name| f64::from(text_width(name)) <= room);
    let shown = shown.map_or_else(|| layout::short(short, letters(room)), str::to_owned);
    plot.text(&shown, (left + plot.width_of(NAME_MARGIN / 2.0), bar.middle), Align::Left);
}

/// Returns how many letters fit.
fn letters(room: f64) -> usize {
    let letter = f64::from(text_width("m")).max(1.0);
    (room / letter) as usize
}
