//! A row interpreter: the plain version of every operator, on 128-bit integers.

/// The value of an expression on a row; decimals are unscaled.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Null,
    Number(i128),
    Float(f64),
    Bool(bool),
    Text(String),
}

/// The reason that a row has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// The expression is an error in SQL.
    Undefined,
    /// The oracle's integers overflow.
    TooLarge,
}

/// Values from which a result may exceed the maximum precision of decimals.
const DECIMAL_MAX: u128 = 10u128.pow(36);

/// Kinds of expressions; numbers have decimal places, and integers are not decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Integer,
    Decimal(u32),
    Float,
    Bool,
    Text,
}

/// An expression of the oracle.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Column(usize, Sort),
    Literal(Cell, Sort),
    Arithmetic(char, Box<Tree>, Box<Tree>),
    Negate(Box<Tree>),
    Abs(Box<Tree>),
    Compare(&'static str, Box<Tree>, Box<Tree>),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
    Not(Box<Tree>),
    IsNull(Box<Tree>, bool),
    Between(Box<Tree>, Box<Tree>, Box<Tree>),
    In(Box<Tree>, Vec<Tree>),
    Case(Box<Tree>, Box<Tree>, Box<Tree>),
    Coalesce(Box<Tree>, Box<Tree>),
    Length(Box<Tree>),
    Lower(Box<Tree>),
    Concat(Box<Tree>, Box<Tree>),
    Substring(Box<Tree>, i64, i64),
    Contains(Box<Tree>, &'static str),
}

/// The columns of expressions: names and kinds.
pub(super) const COLUMNS: [(&str, Sort); 7] = [
    ("i", Sort::Integer),
    ("small", Sort::Integer),
    ("p", Sort::Decimal(2)),
    ("t", Sort::Decimal(3)),
    ("f", Sort::Float),
    ("b", Sort::Bool),
    ("s", Sort::Text),
];

impl Tree {
    /// The kind of the values.
    pub(super) fn sort(&self) -> Sort {
        match self {
            Tree::Column(_, sort) | Tree::Literal(_, sort) => *sort,
            Tree::Arithmetic(sign, left, right) => arithmetic_sort(*sign, left.sort(), right.sort()),
            Tree::Negate(input) | Tree::Abs(input) => input.sort(),
            Tree::Case(_, left, right) | Tree::Coalesce(left, right) => match (left.sort(), right.sort()) {
                (Sort::Decimal(a), Sort::Decimal(b)) => Sort::Decimal(a.max(b)),
                (same, _) => same,
            },
            Tree::Length(_) => Sort::Integer,
            Tree::Lower(_) | Tree::Concat(..) | Tree::Substring(..) => Sort::Text,
            _ => Sort::Bool,
        }
    }

    pub(super) fn sql(&self) -> String {
        match self {
            Tree::Column(place, _) => COLUMNS[*place].0.to_owned(),
            Tree::Literal(cell, sort) => literal(cell, *sort),
            Tree::Arithmetic(sign, left, right) => format!("({} {sign} {})", left.sql(), right.sql()),
            Tree::Negate(input) => format!("(- {})", input.sql()),
            Tree::Abs(input) => format!("abs({})", input.sql()),
            Tree::Compare(sign, left, right) => format!("({} {sign} {})", left.sql(), right.sql()),
            Tree::And(left, right) => format!("({} and {})", left.sql(), right.sql()),
            Tree::Or(left, right) => format!("({} or {})", left.sql(), right.sql()),
            Tree::Not(input) => format!("(not {})", input.sql()),
            Tree::IsNull(input, negated) => {
                format!("({} is {}null)", input.sql(), if *negated { "not " } else { "" })
            }
            Tree::Between(input, low, high) => {
                format!("({} between {} and {})", input.sql(), low.sql(), high.sql())
            }
            Tree::In(input, list) => {
                format!(
                    "({} in ({}))",
                    input.sql(),
                    list.iter().map(Tree::sql).collect::<Vec<_>>().join(", ")
                )
            }
            Tree::Case(condition, left, right) => {
                format!("case when {} then {} else {} end", condition.sql(), left.sql(), right.sql())
            }
            Tree::Coalesce(left, right) => format!("coalesce({}, {})", left.sql(), right.sql()),
            Tree::Length(input) => format!("length({})", input.sql()),
            Tree::Lower(input) => format!("lower({})", input.sql()),
            Tree::Concat(left, right) => format!("({} || {})", left.sql(), right.sql()),
            Tree::Substring(input, start, length) => format!("substring({}, {start}, {length})", input.sql()),
            Tree::Contains(input, part) => format!("({} like '%{part}%')", input.sql()),
        }
    }

    /// The value on a row. AND, OR, CASE and coalesce evaluate only the needed inputs, from left to right.
    pub(super) fn value(&self, row: &[Cell]) -> Result<Cell, Failed> {
        Ok(match self {
            Tree::Column(place, _) => row[*place].clone(),
            Tree::Literal(cell, _) => cell.clone(),
            Tree::Arithmetic(sign, left, right) => {
                let (a, b) = (left.value(row)?, right.value(row)?);
                arithmetic(*sign, a, left.sort(), b, right.sort())?
            }
            Tree::Negate(input) => signed(input.value(row)?, input.sort(), |value| -value, |value| -value)?,
            Tree::Abs(input) => signed(input.value(row)?, input.sort(), i128::abs, f64::abs)?,
            Tree::Compare(sign, left, right) => compared(sign, &at_same(left, right, row)?),
            Tree::And(left, right) => three(left.value(row)?, || right.value(row), false)?,
            Tree::Or(left, right) => three(left.value(row)?, || right.value(row), true)?,
            Tree::Not(input) => not(input.value(row)?),
            Tree::IsNull(input, negated) => Cell::Bool((input.value(row)? == Cell::Null) != *negated),
            Tree::Between(input, low, high) => {
                let above = compared(">=", &at_same(input, low, row)?);
                three(above, || Ok(compared("<=", &at_same(input, high, row)?)), false)?
            }
            Tree::In(input, list) => {
                let mut result = Cell::Bool(false);
                for item in list {
                    result = three(result, || Ok(compared("=", &at_same(input, item, row)?)), true)?;
                }
                result
            }
            Tree::Case(condition, left, right) => {
                let chosen = if condition.value(row)? == Cell::Bool(true) { left } else { right };
                scaled(chosen.value(row)?, chosen.sort(), self.sort())?
            }
            Tree::Coalesce(left, right) => match left.value(row)? {
                Cell::Null => scaled(right.value(row)?, right.sort(), self.sort())?,
                value => scaled(value, left.sort(), self.sort())?,
            },
            Tree::Length(input) => text(input.value(row)?, |text| Cell::Number(text.chars().count() as i128)),
            Tree::Lower(input) => text(input.value(row)?, |text| Cell::Text(text.to_lowercase())),
            Tree::Concat(left, right) => {
                let (left, right) = (left.value(row)?, right.value(row)?);
                match (left, right) {
                    (Cell::Text(left), Cell::Text(right)) => Cell::Text(left + &right),
                    _ => Cell::Null,
                }
            }
            Tree::Substring(input, start, length) => text(input.value(row)?, |text| {
                let within =
                    |place: usize| (place as i64 + 1) >= *start && (place as i64 + 1) < start + length;
                Cell::Text(
                    text.chars()
                        .enumerate()
                        .filter(|(place, _)| within(*place))
                        .map(|(_, letter)| letter)
                        .collect(),
                )
            }),
            Tree::Contains(input, part) => text(input.value(row)?, |text| Cell::Bool(text.contains(part))),
        })
    }
}

fn literal(cell: &Cell, sort: Sort) -> String {
    match (cell, sort) {
        (Cell::Number(value), Sort::Decimal(places)) => {
            let unit = 10i128.pow(places);
            format!("{}.{:0width$}", value / unit, value % unit, width = places as usize)
        }
        (Cell::Number(value), _) => value.to_string(),
        (Cell::Float(value), _) => format!("{value:e}"),
        (Cell::Bool(value), _) => value.to_string(),
        (Cell::Text(text), _) => format!("'{}'", text.replace('\'', "''")),
        (Cell::Null, _) => "null".into(),
    }
}

fn places(sort: Sort) -> u32 {
    if let Sort::Decimal(places) = sort { places } else { 0 }
}

fn arithmetic_sort(sign: char, left: Sort, right: Sort) -> Sort {
    match (left, right) {
        (Sort::Integer, Sort::Integer) => Sort::Integer,
        (Sort::Float, _) | (_, Sort::Float) => Sort::Float,
        _ => Sort::Decimal(match sign {
            '*' => places(left) + places(right),
            '/' => places(left) + 4,
            _ => places(left).max(places(right)),
        }),
    }
}

/// Converts a number to more decimal places.
fn scaled(cell: Cell, from: Sort, to: Sort) -> Result<Cell, Failed> {
    match cell {
        Cell::Number(value) => Ok(Cell::Number(shifted(value, places(to) - places(from))?)),
        other => Ok(other),
    }
}

/// `value * 10^more`.
fn shifted(value: i128, more: u32) -> Result<i128, Failed> {
    let shifted = 10i128.checked_pow(more).and_then(|factor| value.checked_mul(factor));
    shifted.filter(|value| value.unsigned_abs() < DECIMAL_MAX).ok_or(Failed::TooLarge)
}

fn fit(value: Option<i128>, sort: Sort) -> Result<Cell, Failed> {
    let value = value.ok_or(Failed::TooLarge)?;
    match sort {
        Sort::Integer if i64::try_from(value).is_err() => Err(Failed::Undefined),
        _ if value.unsigned_abs() >= DECIMAL_MAX => Err(Failed::TooLarge),
        _ => Ok(Cell::Number(value)),
    }
}

fn signed(cell: Cell, sort: Sort, number: fn(i128) -> i128, float: fn(f64) -> f64) -> Result<Cell, Failed> {
    match cell {
        Cell::Number(value) => fit(Some(number(value)), sort),
        Cell::Float(value) => Ok(Cell::Float(float(value))),
        other => Ok(other),
    }
}

fn arithmetic(sign: char, a: Cell, a_sort: Sort, b: Cell, b_sort: Sort) -> Result<Cell, Failed> {
    let sort = arithmetic_sort(sign, a_sort, b_sort);
    let (a, b) = match (a, b) {
        (Cell::Float(a), Cell::Float(b)) => {
            return Ok(Cell::Float(match sign {
                '+' => a + b,
                '-' => a - b,
                '*' => a * b,
                _ => a / b,
            }));
        }
        (Cell::Number(a), Cell::Number(b)) => (a, b),
        _ => return Ok(Cell::Null),
    };
    let same = |value: i128, own: Sort| shifted(value, places(sort).saturating_sub(places(own)));
    match (sign, sort) {
        ('/' | '%', _) if b == 0 => Err(Failed::Undefined),
        ('+', _) => fit(same(a, a_sort)?.checked_add(same(b, b_sort)?), sort),
        ('-', _) => fit(same(a, a_sort)?.checked_sub(same(b, b_sort)?), sort),
        ('*', _) => fit(a.checked_mul(b), sort),
        ('%', _) => fit(same(a, a_sort)?.checked_rem(same(b, b_sort)?), sort),
        (_, Sort::Integer) => fit(a.checked_div(b), sort),
        _ => {
            let dividend = shifted(a, 4 + places(b_sort))?;
            let twice = 2 * dividend.abs() / b.abs();
            fit(Some((twice + 1) / 2 * dividend.signum() * b.signum()), sort)
        }
    }
}

/// The values of both operands, with the same decimal places.
fn at_same(left: &Tree, right: &Tree, row: &[Cell]) -> Result<[Cell; 2], Failed> {
    let (a, b) = (left.value(row)?, right.value(row)?);
    let most = Sort::Decimal(places(left.sort()).max(places(right.sort())));
    Ok([scaled(a, left.sort(), most)?, scaled(b, right.sort(), most)?])
}

/// NaN equals NaN and is greater than every number; -0 equals 0.
fn order(a: &Cell, b: &Cell) -> Option<std::cmp::Ordering> {
    match (a, b) {
        (Cell::Number(a), Cell::Number(b)) => Some(a.cmp(b)),
        (Cell::Bool(a), Cell::Bool(b)) => Some(a.cmp(b)),
        (Cell::Text(a), Cell::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Cell::Float(a), Cell::Float(b)) => a.partial_cmp(b).or(Some(a.is_nan().cmp(&b.is_nan()))),
        _ => None,
    }
}

fn compared(sign: &str, [a, b]: &[Cell; 2]) -> Cell {
    let order = order(a, b);
    let is_same_null = *a == Cell::Null && *b == Cell::Null;
    let is_equal = order.map_or(is_same_null, std::cmp::Ordering::is_eq);
    Cell::Bool(match (sign, order) {
        ("IS DISTINCT FROM", _) => !is_equal,
        ("IS NOT DISTINCT FROM", _) => is_equal,
        (_, None) => return Cell::Null,
        ("=", Some(order)) => order.is_eq(),
        ("<>", Some(order)) => order.is_ne(),
        ("<", Some(order)) => order.is_lt(),
        ("<=", Some(order)) => order.is_le(),
        (">", Some(order)) => order.is_gt(),
        (_, Some(order)) => order.is_ge(),
    })
}

/// Evaluates AND or OR; `settles` is the value that decides the result.
fn three(first: Cell, second: impl FnOnce() -> Result<Cell, Failed>, settles: bool) -> Result<Cell, Failed> {
    if first == Cell::Bool(settles) {
        return Ok(first);
    }
    let second = second()?;
    Ok(if second == Cell::Bool(settles) || first != Cell::Null { second } else { Cell::Null })
}

fn not(cell: Cell) -> Cell {
    if let Cell::Bool(value) = cell { Cell::Bool(!value) } else { Cell::Null }
}

fn text(cell: Cell, compute: impl FnOnce(&str) -> Cell) -> Cell {
    if let Cell::Text(text) = cell { compute(&text) } else { Cell::Null }
}
