//! Stages, by the number of their inputs and outputs.

mod asynchronous;
mod fork;
mod join;
mod merge;
mod node;
mod partition;
mod sink;
mod source;

pub(crate) use asynchronous::AsyncNode;
pub use asynchronous::async_operator_state;
pub(crate) use fork::{Copies, Fork};
pub(crate) use join::JoinNode;
pub(crate) use merge::{MergeNode, Union};
pub(crate) use node::Node;
pub(crate) use partition::PartitionNode;
pub(crate) use sink::SinkNode;
pub(crate) use source::SourceNode;
