//! Stages, by the number of their inputs and outputs.

mod fork;
mod join;
mod node;
mod sink;
mod source;

pub(crate) use fork::{Copies, Fork};
pub(crate) use join::JoinNode;
pub(crate) use node::Node;
pub(crate) use sink::SinkNode;
pub(crate) use source::SourceNode;
