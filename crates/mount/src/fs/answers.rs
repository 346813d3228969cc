//! Replies to the kernel by type, and parts common to several requests.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fuser::{Errno, Generation, INodeNo, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyXattr, Request};
use rustix::fs::{AtFlags, Stat};

use super::Files;
use super::attributes::attributes;
use super::content::errno;
use super::names::Caller;
use super::nodes::Node;
use crate::layout::FileId;

/// Time for which the kernel may cache names and attributes: other programs may change the backing directory.
pub(super) const ATTRIBUTE_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) fn caller(request: &Request) -> Caller {
    Caller { user: request.uid(), group: request.gid() }
}

pub(super) fn entry(reply: ReplyEntry, found: io::Result<(Arc<Node>, Stat)>) {
    match found {
        Ok((node, stat)) => reply.entry(&ATTRIBUTE_TIMEOUT, &attributes(node.number, &stat), Generation(0)),
        Err(error) => reply.error(errno(error)),
    }
}

pub(super) fn attr(reply: ReplyAttr, number: INodeNo, found: io::Result<Stat>) {
    match found {
        Ok(stat) => reply.attr(&ATTRIBUTE_TIMEOUT, &attributes(number.0, &stat)),
        Err(error) => reply.error(errno(error)),
    }
}

pub(super) fn id(found: &io::Result<(Arc<Node>, Stat)>) -> Option<FileId> {
    found.as_ref().ok().map(|(node, _)| node.id)
}

pub(super) fn empty(reply: ReplyEmpty, done: io::Result<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

pub(super) fn value(reply: ReplyXattr, size: u32, value: io::Result<Vec<u8>>) {
    match value {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(error)),
    }
}

impl Files {
    /// Replies with a newly created file.
    pub(super) fn made_known(
        &self,
        request: &Request,
        parent: INodeNo,
        reply: ReplyEntry,
        made: io::Result<(Arc<Node>, Stat)>,
    ) {
        let file = id(&made);
        self.changed(request, made, || self.name(parent.0, file), move |made| entry(reply, made));
    }

    pub(super) fn taken_away(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        flags: AtFlags,
        reply: ReplyEmpty,
    ) {
        let file = self.named(parent.0, name);
        let done = self.remove(parent.0, name, flags);
        self.changed(request, done, || self.name(parent.0, file), move |done| empty(reply, done));
    }
}
