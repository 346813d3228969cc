//! System calls, classified by what they can wait for.

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The kind of the call.
    pub kind: CallKind,
    /// The file descriptor that it uses, if its kind has one.
    pub descriptor: Option<u32>,
    /// The position in the file, if the call gives one.
    pub offset: Option<u64>,
    /// Requested bytes of a read or write.
    pub length: u64,
    /// Whether it announces sequential reads (`POSIX_FADV_SEQUENTIAL`).
    pub is_sequential_advice: bool,
}

/// The kind of a system call, by what it can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKind {
    /// Reads from a descriptor.
    Read,
    /// Writes to a descriptor.
    Write,
    /// Opens, creates or executes a file, or looks up, changes or removes a name or its attributes.
    Metadata,
    /// Lists a directory.
    List,
    /// Waits until written data is on storage.
    Sync,
    /// Closes a descriptor.
    Close,
    /// Changes which descriptor means which file.
    Duplicate,
    /// Submits or awaits asynchronous I/O.
    Asynchronous,
    /// Waits for a lock or a condition of another thread (a futex).
    Lock,
    /// Waits for a process, a descriptor or a signal.
    Await,
    /// Sleeps for a time.
    Sleep,
    /// Sends or receives on a socket.
    Socket,
    /// Any other.
    Other,
}

/// Numbers of calls that never wait and use no file: of clocks, identities and signals.
pub(crate) const NEVER_WAITING_CALLS: [i64; 10] = [
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_sched_yield,
    libc::SYS_rt_sigprocmask,
];

impl Call {
    /// Classifies a call by its number on this architecture.
    pub(crate) fn of(number: i64, arguments: &[u64; 6]) -> Call {
        let [first, _, third, fourth, ..] = *arguments;
        let kind = CallKind::of(number);
        let has_descriptor = matches!(
            kind,
            CallKind::Read
                | CallKind::Write
                | CallKind::List
                | CallKind::Sync
                | CallKind::Close
                | CallKind::Duplicate
                | CallKind::Socket
        ) && !matches!(number, libc::SYS_sync | libc::SYS_msync | libc::SYS_socket);
        let offset = match number {
            libc::SYS_pread64 | libc::SYS_pwrite64 => Some(fourth),
            // The position is in two halves, of which the lower one holds all bits on 64-bit machines.
            libc::SYS_preadv | libc::SYS_pwritev | libc::SYS_preadv2 | libc::SYS_pwritev2 => Some(fourth),
            _ => None,
        };
        let length = match number {
            libc::SYS_read | libc::SYS_write | libc::SYS_pread64 | libc::SYS_pwrite64 => third,
            libc::SYS_sendfile => fourth,
            _ => 0,
        };
        // A descriptor is an `int`: the upper half of the argument may be anything.
        let advice = i32::try_from(fourth);
        let is_sequential_advice = number == libc::SYS_fadvise64 && advice == Ok(libc::POSIX_FADV_SEQUENTIAL);
        let descriptor =
            u32::try_from(if number == libc::SYS_sendfile { arguments[1] } else { first } as i32).ok();
        let descriptor = descriptor.filter(|_| has_descriptor);
        Call { kind, descriptor, offset, length, is_sequential_advice }
    }
}

impl CallKind {
    fn of(number: i64) -> CallKind {
        #[cfg(target_arch = "x86_64")]
        match number {
            libc::SYS_open
            | libc::SYS_creat
            | libc::SYS_stat
            | libc::SYS_lstat
            | libc::SYS_access
            | libc::SYS_readlink
            | libc::SYS_rename
            | libc::SYS_mkdir
            | libc::SYS_rmdir
            | libc::SYS_link
            | libc::SYS_unlink
            | libc::SYS_symlink
            | libc::SYS_chmod
            | libc::SYS_chown
            | libc::SYS_lchown
            | libc::SYS_utime
            | libc::SYS_utimes
            | libc::SYS_mknod => return CallKind::Metadata,
            libc::SYS_getdents => return CallKind::List,
            libc::SYS_dup2 => return CallKind::Duplicate,
            libc::SYS_poll | libc::SYS_select | libc::SYS_epoll_wait | libc::SYS_pause => {
                return CallKind::Await;
            }
            _ => {}
        }
        match number {
            libc::SYS_read
            | libc::SYS_pread64
            | libc::SYS_readv
            | libc::SYS_preadv
            | libc::SYS_preadv2
            | libc::SYS_sendfile
            | libc::SYS_splice
            | libc::SYS_copy_file_range
            | libc::SYS_readahead
            | libc::SYS_fadvise64 => CallKind::Read,
            libc::SYS_write
            | libc::SYS_pwrite64
            | libc::SYS_writev
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
            | libc::SYS_fallocate
            | libc::SYS_ftruncate => CallKind::Write,
            libc::SYS_openat
            | libc::SYS_openat2
            | libc::SYS_newfstatat
            | libc::SYS_statx
            | libc::SYS_fstat
            | libc::SYS_faccessat
            | libc::SYS_faccessat2
            | libc::SYS_readlinkat
            | libc::SYS_execve
            | libc::SYS_execveat
            | libc::SYS_renameat
            | libc::SYS_renameat2
            | libc::SYS_mkdirat
            | libc::SYS_linkat
            | libc::SYS_unlinkat
            | libc::SYS_symlinkat
            | libc::SYS_mknodat
            | libc::SYS_truncate
            | libc::SYS_chdir
            | libc::SYS_fchmodat
            | libc::SYS_fchownat
            | libc::SYS_utimensat
            | libc::SYS_statfs
            | libc::SYS_getxattr
            | libc::SYS_lgetxattr
            | libc::SYS_setxattr
            | libc::SYS_listxattr
            | libc::SYS_llistxattr => CallKind::Metadata,
            libc::SYS_getdents64 => CallKind::List,
            libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_sync
            | libc::SYS_syncfs
            | libc::SYS_sync_file_range
            | libc::SYS_msync => CallKind::Sync,
            libc::SYS_close => CallKind::Close,
            libc::SYS_dup3 | libc::SYS_close_range => CallKind::Duplicate,
            libc::SYS_io_uring_enter | libc::SYS_io_submit | libc::SYS_io_getevents => CallKind::Asynchronous,
            libc::SYS_futex => CallKind::Lock,
            libc::SYS_wait4
            | libc::SYS_waitid
            | libc::SYS_ppoll
            | libc::SYS_pselect6
            | libc::SYS_epoll_pwait
            | libc::SYS_rt_sigsuspend
            | libc::SYS_rt_sigtimedwait
            | libc::SYS_flock => CallKind::Await,
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => CallKind::Sleep,
            libc::SYS_connect
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg => CallKind::Socket,
            _ => CallKind::Other,
        }
    }
}
