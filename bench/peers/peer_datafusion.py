"""DataFusion: statements of `bench/query.py`."""

from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext

from common import Q1, main


def prepare(job):
    config = SessionConfig().with_target_partitions(job.get("partitions", job["threads"]))
    if job["case"] == "join":
        # A hash join does not spill.
        config = config.set("datafusion.optimizer.prefer_hash_join", "false")
    runtime = RuntimeEnvBuilder().with_disk_manager_specified(job["spill"])
    if job.get("memory"):
        runtime = runtime.with_fair_spill_pool(job["memory"])
    context = SessionContext(config, runtime)
    names = ["a", "b"][: len(job["inputs"])]
    for name, path in zip(names, job["inputs"]):
        context.register_parquet(name, path)
    if job["case"] == "q1":
        return lambda: [list(row.values()) for row in context.sql(Q1.format(table="a")).to_pylist()]
    compression = {"none": "uncompressed", "zstd": "zstd(1)"}.get(job["compression"], job["compression"])
    rows = f"select * from a join b on {job['on']}" if job["case"] == "join" else f"select * from a order by {job['by']}"
    options = f"('compression' '{compression}', 'max_row_group_size' '122880')"
    statement = f"copy ({rows}) to '{job['output']}' stored as parquet options {options}"
    return lambda: context.sql(statement).collect() and None


main(prepare)
