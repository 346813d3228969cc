//! Names of the trace formats.

use std::fmt;

/// A format in which traces can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// sakiyomi's own CSV.
    Sakiyomi,
    /// The columns of sakiyomi's CSV in Parquet.
    Parquet,
    /// DiskSim's ASCII trace.
    Disksim,
    /// Traces used to validate DiskSim's drive models.
    DisksimValidation,
    /// ASCII trace of MQSim and SSDsim.
    Mqsim,
    /// MSR Cambridge (SNIA IOTTA).
    Msr,
    /// Storage Performance Council, as at UMass.
    Spc,
    /// SYSTOR '17 (SNIA IOTTA).
    Systor17,
    /// Output of blkparse.
    Blkparse,
    /// The kernel's block events as text: of tracefs, trace-cmd or perf.
    Ftrace,
    /// Output of biosnoop, of BCC or libbpf-tools.
    Biosnoop,
    /// fio's I/O log, versions 2 and 3.
    Fio,
    /// CloudPhysics vSCSI, decoded to CSV.
    Cloudphysics,
    /// blktrace of a Hadoop node, decoded to CSV.
    Hadoop,
    /// HP Labs' hplajw of 1992, decoded to CSV.
    Hplajw,
}

impl Format {
    /// All formats, in the order of lists.
    pub const ALL: [Format; 15] = [
        Format::Sakiyomi,
        Format::Parquet,
        Format::Disksim,
        Format::DisksimValidation,
        Format::Mqsim,
        Format::Msr,
        Format::Spc,
        Format::Systor17,
        Format::Blkparse,
        Format::Ftrace,
        Format::Biosnoop,
        Format::Fio,
        Format::Cloudphysics,
        Format::Hadoop,
        Format::Hplajw,
    ];

    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Sakiyomi => "sakiyomi",
            Format::Parquet => "parquet",
            Format::Disksim => "disksim",
            Format::DisksimValidation => "disksim-validation",
            Format::Mqsim => "mqsim",
            Format::Msr => "msr",
            Format::Spc => "spc",
            Format::Systor17 => "systor17",
            Format::Blkparse => "blkparse",
            Format::Ftrace => "ftrace",
            Format::Biosnoop => "biosnoop",
            Format::Fio => "fio",
            Format::Cloudphysics => "cloudphysics",
            Format::Hadoop => "hadoop",
            Format::Hplajw => "hplajw",
        }
    }

    /// Returns a short description of a line.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Format::Sakiyomi => "CSV with a header: time_ns,device,stream,op,fua,offset_bytes,length_bytes,…",
            Format::Parquet => "the sakiyomi columns in Parquet",
            Format::Disksim => "arrival in ms, device, LBN, sectors, flags with bit 0 for a read",
            Format::DisksimValidation => "R|W, label, LBN, sectors, service time and think time in us",
            Format::Mqsim => "arrival in ns, device, LBA, sectors, 1 for a read",
            Format::Msr => "FILETIME, host, disk, Read|Write, offset and size in bytes, response in 100 ns",
            Format::Spc => "ASU, LBA, size in bytes, r|w, time in s, separated by commas",
            Format::Systor17 => "Timestamp and Response in s, IOType, LUN, Offset and Size in bytes",
            Format::Blkparse => {
                "blkparse's default output: device, CPU, sequence, time in s, process, action, RWBS, …"
            }
            Format::Ftrace => "the kernel's block events, as tracefs, trace-cmd and perf print them",
            Format::Biosnoop => "output of biosnoop of BCC or libbpf-tools, with its header",
            Format::Fio => "fio iolog, version 2 or 3",
            Format::Cloudphysics => "CSV: time_us,scsi_op_hex,bytes,lba512",
            Format::Hadoop => "CSV: issue_us,lba512,sectors,op",
            Format::Hplajw => "CSV: enqueue_us,start_us,stop_us,bytes,lba256,disk,…",
        }
    }

    /// Returns whether the format contains the response time of each command. In sakiyomi's own formats it is optional.
    #[must_use]
    pub fn has_times(self) -> bool {
        matches!(
            self,
            Format::DisksimValidation
                | Format::Msr
                | Format::Systor17
                | Format::Hplajw
                | Format::Blkparse
                | Format::Ftrace
                | Format::Biosnoop
        )
    }

    /// Returns whether the format contains the origin of each command.
    #[must_use]
    pub(crate) fn has_streams(self) -> bool {
        matches!(
            self,
            Format::Sakiyomi | Format::Parquet | Format::Blkparse | Format::Ftrace | Format::Biosnoop
        )
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
