//! The layout of Rust's structures, as macros for C.

use std::mem::offset_of;

use sakiyomi::blocks::{BlockView, BlocksOptions};
use sakiyomi::ranges::{FileRange, RangesOptions};
use sakiyomi::simulation::SimulationOptions;
use sakiyomi::tasks::{ExecutorOptions, TaskOptions};
use sakiyomi::{Options, Statistics};

/// Macros that pass sizes and offsets to the compiler.
pub(crate) fn layout() -> Vec<String> {
    macro_rules! at {
        ($name:literal, $type:ty, $($field:ident),*) => {
            vec![
                (format!("{}_SIZE", $name), size_of::<$type>()),
                $((format!("{}_{}_AT", $name, stringify!($field).to_uppercase()), offset_of!($type, $field))),*
            ]
        };
    }
    let layouts = [
        at!("OPTIONS", Options, size, limit_bytes, step_bytes, memory_bytes),
        at!(
            "STATISTICS",
            Statistics,
            size,
            read_bytes,
            prefetched_bytes,
            waits,
            io_wait_ns,
            io_hidden_ns,
            ahead_bytes
        ),
        at!("RANGE", FileRange, offset, length),
        at!("RANGES_OPTIONS", RangesOptions, size, memory_bytes),
        at!("BLOCK", BlockView, bytes, length, offset, file),
        at!("BLOCKS_OPTIONS", BlocksOptions, size, block_bytes, has_records, record_end, threads),
        at!(
            "EXECUTOR_OPTIONS",
            ExecutorOptions,
            size,
            threads,
            live_max,
            io_lanes,
            io_lane_count,
            cores,
            core_count
        ),
        at!(
            "TASK_OPTIONS",
            TaskOptions,
            size,
            name,
            lane,
            lane_number,
            priority,
            destroy_context,
            destroy_output
        ),
        at!(
            "SIMULATION_OPTIONS",
            SimulationOptions,
            size,
            settings,
            setting_count,
            array,
            chunk,
            warm_up,
            format,
            device,
            map,
            sort_window,
            action,
            time_scale,
            closed_loop,
            outstanding,
            host_queue,
            wrap,
            progress,
            context
        ),
    ];
    layouts.into_iter().flatten().map(|(name, value)| format!("-D{name}={value}")).collect()
}
