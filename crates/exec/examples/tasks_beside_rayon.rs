//! Comparison for `bench/tasks.py`: the same work as tasks of an executor and on rayon, in turn, with two threads each.
//!
//! `tasks_beside_rayon [ROUNDS [CASE]]` prints a line for each case: its name, and the medians of both in
//! microseconds.

use std::hint::black_box;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use sakiyomi_exec::executor::{Executor, Handle, SharedHandle, Threads};

/// Threads of each side.
const THREADS: usize = 2;
/// Empty tasks of a run.
const EMPTY_TASKS: usize = 1_000_000;
/// Rounds of each case, unless a number is given.
const ROUNDS_DEFAULT: usize = 7;

fn main() {
    let case = std::env::args().nth(2);
    let wants = |name: &str| case.as_ref().is_none_or(|case| case == name);
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS_DEFAULT);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build().expect("threads can be started");
    let executor = Threads::new(THREADS).start().expect("threads can be started");
    if wants("empty") {
        compare("empty", rounds, || empty(&executor), || pool.install(empty_on_rayon));
    }
    if wants("cholesky_64_x_8") {
        cholesky::<8>("cholesky_64_x_8", 64, rounds, &executor, &pool);
    }
    if wants("cholesky_16_x_64") {
        cholesky::<64>("cholesky_16_x_64", 16, rounds, &executor, &pool);
    }
}

/// Measures both sides in turn.
fn compare(name: &str, rounds: usize, ours: impl Fn(), rival: impl Fn()) {
    let timed = |what: &dyn Fn()| {
        let begun = Instant::now();
        what();
        begun.elapsed()
    };
    let (mut times, mut of_rival) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        times.push(timed(&ours));
        of_rival.push(timed(&rival));
    }
    #[expect(clippy::print_stdout, reason = "the result")]
    {
        println!("{name} {} {}", median(&mut times), median(&mut of_rival));
    }
}

fn median(times: &mut [Duration]) -> u128 {
    times.sort_unstable();
    times[times.len() / 2].as_micros()
}

fn empty(executor: &Executor<'static>) {
    let made = executor.run(|tasks| {
        (0..EMPTY_TASKS).for_each(|_| tasks.task("empty").spawn(|_| ()).forget());
    });
    made.expect("nothing fails");
}

fn empty_on_rayon() {
    rayon::scope(|scope| (0..EMPTY_TASKS).for_each(|_| scope.spawn(|_| ())));
}

/// A tile of `B` rows of `B` numbers.
type Tile<const B: usize> = Box<[[f64; B]; B]>;

/// A matrix of tiles, of which those on and below the diagonal are used.
struct Matrix<const B: usize> {
    size: usize,
    tiles: Vec<RwLock<Tile<B>>>,
}

impl<const B: usize> Matrix<B> {
    /// Makes a positive definite matrix.
    fn new(size: usize) -> Matrix<B> {
        let order = (size * B) as f64;
        let tile = |row: usize, column: usize| {
            let value = |i: usize, j: usize| {
                let distance = ((row * B + i) as f64 - (column * B + j) as f64).abs();
                1.0 / (1.0 + distance) + if distance == 0.0 { order } else { 0.0 }
            };
            Box::new(std::array::from_fn(|i| std::array::from_fn(|j| value(i, j))))
        };
        let tiles = (0..size * size).map(|index| RwLock::new(tile(index / size, index % size))).collect();
        Matrix { size, tiles }
    }

    fn read(&self, row: usize, column: usize) -> RwLockReadGuard<'_, Tile<B>> {
        self.tiles[row * self.size + column].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, row: usize, column: usize) -> RwLockWriteGuard<'_, Tile<B>> {
        self.tiles[row * self.size + column].write().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, row: usize, column: usize) -> Tile<B> {
        self.read(row, column).clone()
    }

    /// Returns a number that depends on all of the factor.
    fn sum(&self) -> f64 {
        let below = (0..self.size).flat_map(|row| (0..=row).map(move |column| (row, column)));
        below.map(|(row, column)| self.read(row, column).as_flattened().iter().sum::<f64>()).sum()
    }
}

/// Factors a diagonal tile.
fn factor<const B: usize>(tile: &mut Tile<B>) {
    for k in 0..B {
        let pivot = tile[k][k].sqrt();
        tile[k][k] = pivot;
        for i in k + 1..B {
            tile[i][k] /= pivot;
        }
        for j in k + 1..B {
            for i in j..B {
                tile[i][j] -= tile[i][k] * tile[j][k];
            }
        }
    }
}

/// Solves for a tile below a factored diagonal one.
fn solve<const B: usize>(diagonal: &Tile<B>, tile: &mut Tile<B>) {
    for row in tile.iter_mut() {
        for k in 0..B {
            let dot: f64 = (0..k).map(|j| row[j] * diagonal[k][j]).sum();
            row[k] = (row[k] - dot) / diagonal[k][k];
        }
    }
}

/// Subtracts the product of a tile and a transposed one.
fn update<const B: usize>(left: &Tile<B>, right: &Tile<B>, tile: &mut Tile<B>) {
    let mut transposed = [[0.0; B]; B];
    for (k, row) in transposed.iter_mut().enumerate() {
        for (j, value) in row.iter_mut().enumerate() {
            *value = right[j][k];
        }
    }
    for (row, left) in tile.iter_mut().zip(left.iter()) {
        for (factor, right) in left.iter().zip(&transposed) {
            for (value, right) in row.iter_mut().zip(right) {
                *value -= factor * right;
            }
        }
    }
}

fn cholesky<const B: usize>(
    name: &str,
    size: usize,
    rounds: usize,
    executor: &Executor<'static>,
    pool: &rayon::ThreadPool,
) {
    let first = Matrix::<B>::new(size);
    let sums = [sum_of_tasks(executor, &first), pool.install(|| with_barriers(&first)).sum()];
    assert!((sums[0] - sums[1]).abs() < 1e-6 * sums[1].abs(), "{name}: {sums:?}");
    let ours = || {
        black_box(sum_of_tasks(executor, &first));
    };
    let rival = || {
        black_box(pool.install(|| with_barriers(&first)).sum());
    };
    compare(name, rounds, ours, rival);
}

/// Tiles move from task to task; each task starts when its inputs are there.
fn sum_of_tasks<const B: usize>(executor: &Executor<'static>, matrix: &Matrix<B>) -> f64 {
    let size = matrix.size;
    let run = executor.run(|tasks| {
        let mut tiles: Vec<Vec<Option<Handle<'static, Tile<B>>>>> = (0..size)
            .map(|row| {
                let given = |column| {
                    let tile = matrix.take(row, column);
                    Some(tasks.task("tile").spawn(move |_| tile))
                };
                (0..=row).map(given).collect()
            })
            .collect();
        let mut factored: Vec<SharedHandle<'static, Tile<B>>> = Vec::new();
        for k in 0..size {
            let tile = tiles[k][k].take().expect("each tile is used once per step");
            let diagonal = tasks.task("factor").with(tile).spawn(|mut tile, _| {
                factor(&mut tile);
                tile
            });
            let diagonal = diagonal.share();
            let column: Vec<SharedHandle<'static, Tile<B>>> = (k + 1..size)
                .map(|row| {
                    let tile = tiles[row][k].take().expect("each tile is used once per step");
                    let solved = tasks.task("solve").with((diagonal.clone(), tile));
                    let solved = solved.spawn(|(diagonal, mut tile), _| {
                        solve(&diagonal, &mut tile);
                        tile
                    });
                    solved.share()
                })
                .collect();
            for row in k + 1..size {
                for at in k + 1..=row {
                    let tile = tiles[row][at].take().expect("each tile is used once per step");
                    let (left, right) = (column[row - k - 1].clone(), column[at - k - 1].clone());
                    let updated = tasks.task("update").with((left, right, tile));
                    tiles[row][at] = Some(updated.spawn(|(left, right, mut tile), _| {
                        update(&left, &right, &mut tile);
                        tile
                    }));
                }
            }
            factored.push(diagonal);
            factored.extend(column);
        }
        tasks
            .wait(factored)
            .map(|tiles| tiles.iter().map(|tile| tile.as_flattened().iter().sum::<f64>()).sum())
    });
    run.and_then(|sum| sum).expect("nothing fails")
}

/// Each step waits for all of the one before it.
fn with_barriers<const B: usize>(matrix: &Matrix<B>) -> Matrix<B> {
    let size = matrix.size;
    let tiles = (0..size * size).map(|index| RwLock::new(matrix.take(index / size, index % size)));
    let matrix = Matrix { size, tiles: tiles.collect() };
    for k in 0..size {
        factor(&mut matrix.write(k, k));
        let matrix = &matrix;
        rayon::scope(|scope| {
            for row in k + 1..size {
                scope.spawn(move |_| solve(&matrix.read(k, k), &mut matrix.write(row, k)));
            }
        });
        rayon::scope(|scope| {
            for row in k + 1..size {
                for at in k + 1..=row {
                    scope.spawn(move |_| {
                        update(&matrix.read(row, k), &matrix.read(at, k), &mut matrix.write(row, at));
                    });
                }
            }
        });
    }
    matrix
}
