"""Polars: statements of `bench/query.py` on the streaming engine. `bench/query.py` sets its limit and threads as
environment variables."""

import datetime

import polars as pl
from polars import col

from common import main


def q1(table):
    price = col("l_extendedprice") * (1 - col("l_discount"))
    rows = table.filter(col("l_shipdate") <= datetime.date(1998, 9, 2))
    return rows.group_by("l_returnflag", "l_linestatus").agg(
        col("l_quantity").sum().alias("sum_qty"), col("l_extendedprice").sum().alias("sum_base_price"),
        price.sum().alias("sum_disc_price"), (price * (1 + col("l_tax"))).sum().alias("sum_charge"),
        col("l_quantity").mean().alias("avg_qty"), col("l_extendedprice").mean().alias("avg_price"),
        col("l_discount").mean().alias("avg_disc"), pl.len().alias("count_order"),
    ).sort("l_returnflag", "l_linestatus")


def prepare(job):
    tables = [pl.scan_parquet(path) for path in job["inputs"]]
    if job["case"] == "q1":
        return lambda: [list(row) for row in q1(tables[0]).collect(engine="streaming").rows()]
    if job["case"] == "join":
        left, right = (side.strip() for side in job["on"].split("="))
        rows = tables[0].join(tables[1], left_on=left, right_on=right, coalesce=False)
    else:
        keys = [key.split() for key in job["by"].split(",")]
        rows = tables[0].sort(
            [key[0] for key in keys], descending=[key[1:] == ["desc"] for key in keys], nulls_last=True)
    compression = {"none": "uncompressed"}.get(job["compression"], job["compression"])
    sink = rows.sink_parquet(job["output"], compression=compression, row_group_size=122880, lazy=True)
    return lambda: sink.collect(engine="streaming") is None or None


main(prepare)
