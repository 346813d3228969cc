//! `query q1`: query 1 of TPC-H, which reads seven columns of LINEITEM and computes eight aggregates of four groups.

use anyhow::Result;
use clap::Args;
use sakiyomi_tables::Operation;

use crate::tables::{CommandArgs, InputArgs, SharedArgs, TableCommand};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi query q1 tpch/lineitem.parquet
  sakiyomi query q1 tpch/lineitem.arrow --direct --method uring:8 --block 1MiB --json
";

/// Run query 1 of TPC-H on LINEITEM.
#[derive(Debug, Args)]
#[command(
    after_help = "select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - \
l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), \
avg(l_discount), count(*) from lineitem where l_shipdate <= date '1998-09-02' group by 1, 2 order by 1, 2"
)]
pub(crate) struct Q1 {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    shared: SharedArgs,
}

impl TableCommand for Q1 {
    fn operation(&self) -> Result<Operation> {
        Ok(Operation::Q1)
    }

    fn args(&self) -> CommandArgs<'_> {
        CommandArgs::of_table(&self.input, &self.shared)
    }
}
