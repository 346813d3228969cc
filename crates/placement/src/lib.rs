//! Planning of low-latency streams: the placement of operators on cores (Ueda et al., IEICE Trans. D 96(5), 2013; the
//! report of 2013, section 4 (3)).
//!
//! A continuous query is a pipeline of operators. On too few cores it cannot keep up with its input; each further
//! core adds a hop, and so latency. The planner finds the fewest cores that sustain the rate with nearly the least
//! latency.
//! ```text
//! Pipeline ─┐
//! Topology ─┼─► Planner ─ plan(Arrivals) ─► Plan: placement, latency, utilization │ Shortfall
//! Settings ─┘          └─ table(Arrivals) ─► PlanTable: the plan of any rate, looked up
//! StageBounds, WorkBounds ─► Certificate, PlacementCertificate: ring sizes and a bound of the delay
//! ```
//!
//! | subject | module |
//! |---|---|
//! | cores in cache domains, costs of a hop | [`topology`] |
//! | operators, arrivals; utilization and latency of a placement | [`model`] |
//! | optimal placements of chains, good placements of graphs | [`plan`] |
//! | ring sizes that never overflow | [`certificate`] |
//! | figures estimated from samples, with error and age | [`measure`] |
//! | when to change the plan | [`control`] |
//! | keys on replicas | [`bins`] |
//! | transitions between placements while tuples flow | [`transition`] |
//!
//! Times are nanoseconds, rates tuples per second, both `f64` because they are means. The crate is pure: no clock, no
//! threads, no files; the same input gives the same plan.
//!
//! ```
//! use sakiyomi_placement::{Arrivals, Hop, Operator, Pipeline, Planner, Settings, Topology};
//!
//! let pipeline = Pipeline::chain(vec![Operator::new(300.0), Operator::new(500.0)], &[1.0])?;
//! let topology = Topology::uniform(4, Hop { transit_ns: 150.0, ..Hop::FREE })?;
//! let planner = Planner::new(&pipeline, &topology, Settings::default())?;
//!
//! let slow = planner.plan(Arrivals::constant(1.0e6)?).expect("one core is enough");
//! assert_eq!(slow.placement.cores_used(), 1);
//! let fast = planner.plan(Arrivals::constant(1.5e6)?).expect("two cores are enough");
//! assert_eq!(fast.placement.cores_used(), 2);
//! let short = planner.plan(Arrivals::constant(2.0e6)?).unwrap_err();
//! assert!((short.held_per_s / 1.7e6 - 1.0).abs() < 0.001, "{short}");
//! # Ok::<(), sakiyomi_placement::Error>(())
//! ```
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod assignment;
pub mod bins;
pub mod certificate;
pub mod control;
mod error;
pub mod measure;
pub mod model;
pub mod plan;
pub mod topology;
pub mod transition;

pub use bins::Bins;
pub use certificate::{
    ArrivalBounds, Certificate, PlacementCertificate, ReplicaBounds, RingBound, StageBounds, Surge,
    WorkBounds,
};
pub use control::{Action, ControlSettings, Controller};
pub use error::{Error, PipelineFault, PlacementFault};
pub use measure::{ArrivalFigures, ArrivalMeter, Estimate, SelectivityMeter, ServiceFigures, ServiceMeter};
pub use model::{
    Arrivals, Constraints, Edge, Figures, Group, Idle, Key, Model, Operator, Pipeline, Placement,
};
pub use plan::{Cut, Limit, Optimality, Plan, PlanTable, Planner, Settings, Shortfall};
pub use topology::{Distance, Hop, Topology};
pub use transition::Move;
