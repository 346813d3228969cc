//! Random expressions and rows for the interpreter.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::oracle::{COLUMNS, Cell, Sort, Tree};

const TEXTS: [&str; 5] = ["", "a", "Ab", "ÄÖ", "it's"];

pub(super) fn tree(seed: u64) -> Tree {
    let random = &mut Pcg64::seed_from_u64(seed);
    let sorts = [Sort::Integer, Sort::Decimal(0), Sort::Float, Sort::Bool, Sort::Text];
    let sort = sorts[pick(random, 5)];
    grow(random, sort, 3)
}

/// A random condition.
pub(super) fn condition_tree(seed: u64) -> Tree {
    grow(&mut Pcg64::seed_from_u64(seed), Sort::Bool, 4)
}

/// A row of random cells, one for each column.
pub(super) fn row(random: &mut Pcg64) -> Vec<Cell> {
    COLUMNS
        .iter()
        .map(|(name, sort)| if pick(random, 6) == 0 { Cell::Null } else { cell(random, *sort, *name == "i") })
        .collect()
}

fn pick(random: &mut Pcg64, most: usize) -> usize {
    (random.next_u64() % most as u64) as usize
}

fn cell(random: &mut Pcg64, sort: Sort, wide: bool) -> Cell {
    match sort {
        Sort::Integer if wide && pick(random, 10) == 0 => {
            Cell::Number([i64::MIN, i64::MAX][pick(random, 2)].into())
        }
        Sort::Integer => Cell::Number(pick(random, 9) as i128 - 4),
        Sort::Decimal(_) => Cell::Number(pick(random, 2001) as i128 - 1000),
        Sort::Float => Cell::Float([0.0, -0.0, 1.5, -2.0, f64::NAN, f64::INFINITY][pick(random, 6)]),
        Sort::Bool => Cell::Bool(pick(random, 2) == 0),
        Sort::Text => Cell::Text(TEXTS[pick(random, 5)].into()),
    }
}

/// A random expression of a kind; decimals may have any number of places.
fn grow(random: &mut Pcg64, sort: Sort, depth: usize) -> Tree {
    if depth == 0 || pick(random, 5) == 0 {
        return leaf(random, sort);
    }
    let kind = pick(random, 8);
    let mut of = |sort| Box::new(grow(random, sort, depth - 1));
    match (kind, sort) {
        (0, _) => Tree::Case(of(Sort::Bool), of(sort), of(sort)),
        (1, _) => Tree::Coalesce(of(sort), of(sort)),
        (_, Sort::Bool) => condition(random, depth),
        (2, Sort::Text) => Tree::Lower(of(sort)),
        (3, Sort::Text) => {
            let text = of(sort);
            Tree::Substring(text, pick(random, 5) as i64 - 1, pick(random, 3) as i64)
        }
        (_, Sort::Text) => Tree::Concat(of(sort), of(sort)),
        (2, Sort::Integer) => Tree::Length(of(Sort::Text)),
        (3, _) => Tree::Negate(of(sort)),
        (4, Sort::Integer | Sort::Decimal(_)) => Tree::Abs(of(sort)),
        (5, Sort::Decimal(_)) => Tree::Arithmetic('*', of(sort), of(Sort::Integer)),
        _ => {
            let (left, right) = (of(sort), of(sort));
            let signs =
                if sort == Sort::Float { ['+', '-', '*', '/', '/'] } else { ['+', '-', '*', '/', '%'] };
            Tree::Arithmetic(signs[pick(random, 5)], left, right)
        }
    }
}

fn condition(random: &mut Pcg64, depth: usize) -> Tree {
    let sorts = [Sort::Integer, Sort::Decimal(0), Sort::Float, Sort::Bool, Sort::Text];
    let sort = sorts[pick(random, 5)];
    let kind = pick(random, 9);
    let mut of = |sort| Box::new(grow(random, sort, depth - 1));
    match kind {
        0 => Tree::And(of(Sort::Bool), of(Sort::Bool)),
        1 => Tree::Or(of(Sort::Bool), of(Sort::Bool)),
        2 => Tree::Not(of(Sort::Bool)),
        3 => Tree::IsNull(of(sort), depth.is_multiple_of(2)),
        4 => Tree::Between(of(sort), of(sort), of(sort)),
        5 => Tree::In(of(sort), vec![*of(sort), *of(sort)]),
        6 => Tree::Contains(of(Sort::Text), "a"),
        _ => {
            let (left, right) = (of(sort), of(sort));
            let signs = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"];
            Tree::Compare(signs[pick(random, 8)], left, right)
        }
    }
}

fn leaf(random: &mut Pcg64, sort: Sort) -> Tree {
    let is_kind =
        |known: &Sort| matches!((known, sort), (Sort::Decimal(_), Sort::Decimal(_))) || *known == sort;
    let places: Vec<usize> = (0..COLUMNS.len()).filter(|&place| is_kind(&COLUMNS[place].1)).collect();
    if pick(random, 3) > 0 {
        let place = places[pick(random, places.len())];
        return Tree::Column(place, COLUMNS[place].1);
    }
    match sort {
        Sort::Decimal(_) => Tree::Literal(Cell::Number(pick(random, 300) as i128 + 1), Sort::Decimal(2)),
        Sort::Float => Tree::Literal(Cell::Float(2.5), sort),
        sort => Tree::Literal(cell(random, sort, false), sort),
    }
}
