"""DuckDB: statements of `bench/query.py`."""

import duckdb

from common import Q1, main


def prepare(job):
    own = job.get("database")
    connection = duckdb.connect(own, read_only=True) if own else duckdb.connect()
    connection.execute(f"set threads = {job['threads']}")
    if job.get("memory"):
        connection.execute(f"set memory_limit = '{job['memory']}B'")
    connection.execute(f"set temp_directory = '{job['spill']}'")
    return lambda: connection.execute(statement(job)).fetchall()


def statement(job):
    inputs = [f"read_parquet('{path}')" for path in job["inputs"]]
    if job["case"] == "q1":
        return Q1.format(table="lineitem" if job.get("database") else inputs[0])
    compression = {"none": "uncompressed"}.get(job["compression"], job["compression"])
    options = f"(format parquet, compression {compression}, row_group_size 122880)"
    if job["case"] == "join":
        left, right = inputs
        rows = f"select * from {left} join {right} on {job['on']}"
    else:
        rows = f"select * from {inputs[0]} order by {job['by']}"
    return f"copy ({rows}) to '{job['output']}' {options}"


main(prepare)
