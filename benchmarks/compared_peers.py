"""The five queries of the comparison, as each peer's own library writes them; runs in that peer's environment.

    python -m benchmarks.compared      runs it

A user counts in at most 3 regions, with at most 10 visits in each; amounts are clamped to [0, 100]; ε = 1, δ = 1e-6.
Where a library cannot bound so, its bounds are the nearest that it has: docs/comparison.md names them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.bounding import FEW, GROUPS, HIGH, LOW, REGIONS, ROWS

EPSILON, DELTA = 1.0, 1e-6
QUARTILES = (0.25, 0.5, 0.75)

Numbers = dict[str, list[float]]
"""The numbers of each group, by its keys; one group "" where there is none."""


def diffprivlib() -> Mapping[str, Callable[[str], Numbers]]:
    """Rows are what it protects: users are bounded in SQL, and ε is divided by the 30 rows that a user keeps."""
    import duckdb
    import numpy as np
    from diffprivlib import tools

    each = EPSILON / (GROUPS * ROWS)

    def load(path: str, columns: str) -> Any:
        with duckdb.connect() as db:
            db.execute(f"CREATE VIEW visits AS SELECT * FROM read_parquet('{path}')")
            return db.execute(f"{FEW} SELECT {columns} FROM few").fetchnumpy()

    def one_region(amounts: Any) -> list[float]:
        count = tools.count_nonzero(np.ones(len(amounts)), epsilon=each / 3)
        return [
            float(count),
            tools.sum(amounts, epsilon=each / 3, bounds=(LOW, HIGH)),
            tools.mean(amounts, epsilon=each / 3, bounds=(LOW, HIGH)),
        ]

    def by_region(path: str) -> Numbers:
        found = load(path, "region, amount")
        return {r: one_region(found["amount"][np.asarray(found["region"]) == r]) for r in REGIONS}

    def count(path: str) -> Numbers:
        return {"": [float(tools.count_nonzero(np.ones(len(load(path, "user_id")["user_id"])), epsilon=each))]}

    def quartiles(path: str) -> Numbers:
        amounts = load(path, "amount")["amount"]
        return {"": [float(x) for x in tools.quantile(amounts, list(QUARTILES), epsilon=each, bounds=(LOW, HIGH))]}

    return {"Q1": count, "Q2": by_region, "Q4": quartiles}


def opendp() -> Mapping[str, Callable[[str], Numbers]]:
    """The Polars plug-in, as `benchmarks.query_opendp` asks it."""
    import opendp.prelude as dp

    from benchmarks.query_opendp import QUESTIONS

    dp.enable_features("contrib")

    def query(name: str, keys: int) -> Callable[[str], Numbers]:
        def run(path: str) -> Numbers:
            rows = QUESTIONS[name](path).release().collect().rows()
            return {_key(row[:keys]): _with_mean(row[keys:], name in ("Q2", "Q3")) for row in rows}

        return run

    return {name: query(name, keys) for name, keys in {"Q1": 0, "Q2": 1, "Q3": 2, "Q4": 0, "Q5": 0}.items()}


def pipelinedp() -> Mapping[str, Callable[[str], Numbers]]:
    """Its local backend."""
    import pipeline_dp as pdp
    import pyarrow.parquet as pq

    m = pdp.Metrics
    means = [m.COUNT, m.SUM, m.MEAN]

    def query(keys: tuple[int, ...], metrics: Any, groups: int, rows: int, public: Any, fields: str) -> Any:
        def run(path: str) -> Numbers:
            columns = pq.read_table(path, columns=["user_id", "region", "day", "amount"]).to_pydict().values()
            data = list(zip(*columns, strict=True))
            accountant = pdp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
            terms = pdp.AggregateParams(
                noise_kind=pdp.NoiseKind.LAPLACE,
                metrics=metrics,
                max_partitions_contributed=groups,
                max_contributions_per_partition=rows,
                min_value=LOW,
                max_value=HIGH,
            )
            of = pdp.DataExtractors(
                privacy_id_extractor=lambda row: row[0],
                partition_extractor=lambda row: tuple(row[k] for k in keys),
                value_extractor=lambda row: row[3],
            )
            engine = pdp.DPEngine(accountant, pdp.LocalBackend())
            result = engine.aggregate(data, terms, of, public_partitions=public)
            accountant.compute_budgets()
            return {_key(key): [float(getattr(got, f)) for f in fields.split()] for key, got in result}

        return run

    nothing = [()]
    quartiles = [m.PERCENTILE(100 * x) for x in QUARTILES]
    return {
        "Q1": query((), [m.COUNT], 1, GROUPS * ROWS, nothing, "count"),
        "Q2": query((1,), means, GROUPS, ROWS, [(r,) for r in REGIONS], "count sum mean"),
        "Q3": query((1, 2), means, GROUPS * ROWS, ROWS, None, "count sum mean"),
        "Q4": query((), quartiles, 1, GROUPS * ROWS, nothing, "percentile_25 percentile_50 percentile_75"),
        "Q5": query((), [m.PRIVACY_ID_COUNT], 1, 1, nothing, "privacy_id_count"),
    }


def smartnoise() -> Mapping[str, Callable[[str], Numbers]]:
    """SmartNoise SQL on a data frame: one bound on a user's rows in all, ε for each column; no quantiles."""
    import pandas as pd
    import snsql

    def query(sql: str, keys: int, columns: int, *, censor: bool = True) -> Any:
        fields = {
            "user_id": {"name": "user_id", "type": "int", "private_id": True},
            "region": {"name": "region", "type": "string"},
            "dy": {"name": "dy", "type": "int", "lower": 0, "upper": 364},  # a column called day is not parsed
            "amount": {"name": "amount", "type": "float", "lower": LOW, "upper": HIGH},
        }
        terms = {"row_privacy": False, "max_ids": GROUPS * ROWS, "sample_max_ids": True, "clamp_columns": True}
        meta = {"": {"PUB": {"visits": {**terms, "censor_dims": censor, **fields}}}}

        def run(path: str) -> Numbers:
            frame = pd.read_parquet(path, columns=["user_id", "region", "day", "amount"]).rename(columns={"day": "dy"})
            privacy = snsql.Privacy(epsilon=EPSILON / columns, delta=DELTA)
            rows = snsql.from_df(frame, privacy=privacy, metadata=meta).execute(sql)[1:]
            return {_key(row[:keys]): [float(x) for x in row[keys:]] for row in rows}

        return run

    means = "COUNT(*) AS n, SUM(amount) AS s, AVG(amount) AS m FROM PUB.visits GROUP BY region"
    return {
        "Q1": query("SELECT COUNT(*) AS n FROM PUB.visits", 0, 1),
        "Q2": query(f"SELECT region, {means}", 1, 3, censor=False),
        "Q3": query(f"SELECT region, dy, {means}, dy", 2, 3),
        "Q5": query("SELECT COUNT(DISTINCT user_id) AS n FROM PUB.visits", 0, 1),
    }


def tumult() -> Mapping[str, Callable[[str], Numbers]]:
    """Tumult Analytics on Spark with two cores; each aggregate is a query of its own."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession
    from tmlt.analytics import (
        AddRowsWithID,
        ApproxDPBudget,
        KeySet,
        MaxGroupsPerID,
        MaxRowsPerGroupPerID,
        QueryBuilder,
        Session,
    )

    opens = "--add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED"
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = spark.config("spark.sql.warehouse.dir", tempfile.mkdtemp()).config("spark.sql.shuffle.partitions", "4")
    spark = spark.config("spark.driver.extraJavaOptions", f"{opens} -Dio.netty.tryReflectionSetAccessible=true")
    spark = spark.config("spark.driver.memory", "4g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def opened(path: str) -> Any:
        frame, change = spark.read.parquet(path).drop("flag"), AddRowsWithID("user_id")
        budget = Session.Builder().with_privacy_budget(ApproxDPBudget(EPSILON, DELTA))
        return budget.with_private_dataframe("visits", frame, protected_change=change).build()

    def visits() -> Any:
        bounded = QueryBuilder("visits").enforce(MaxGroupsPerID("region", GROUPS))
        return bounded.enforce(MaxRowsPerGroupPerID("region", ROWS))

    def rows(session: Any, query: Any, epsilon: float) -> Any:
        return session.evaluate(query, ApproxDPBudget(epsilon, 0)).collect()

    def means(session: Any, keys: Any, width: int, parts: int) -> Numbers:
        grouped, found = visits().groupby(keys), dict[str, list[float]]()
        for query in (grouped.count(), grouped.sum("amount", LOW, HIGH), grouped.average("amount", LOW, HIGH)):
            for row in rows(session, query, EPSILON / parts):
                found.setdefault(_key(row[:width]), []).append(float(row[width]))
        return found

    def private_groups(path: str) -> Numbers:
        session = opened(path)
        keys = session.evaluate(visits().get_groups(["region", "day"]), ApproxDPBudget(EPSILON / 4, DELTA))
        return means(session, KeySet.from_dataframe(keys), 2, 4)

    def quartiles(path: str) -> Numbers:
        session = opened(path)
        asked = [visits().quantile("amount", x, LOW, HIGH) for x in QUARTILES]
        return {"": [float(rows(session, query, EPSILON / 3)[0][0]) for query in asked]}

    people = QueryBuilder("visits").count_distinct(columns=["user_id"])
    return {
        "Q1": lambda path: {"": [float(rows(opened(path), visits().count(), EPSILON)[0][0])]},
        "Q2": lambda path: means(opened(path), KeySet.from_dict({"region": REGIONS}), 1, 3),
        "Q3": private_groups,
        "Q4": quartiles,
        "Q5": lambda path: {"": [float(rows(opened(path), people, EPSILON)[0][0])]},
    }


PEERS = {f.__name__: f for f in (opendp, pipelinedp, smartnoise, tumult, diffprivlib)}


def _key(values: Any) -> str:
    return ",".join(map(str, values))


def _with_mean(numbers: Any, pair: bool) -> list[float]:
    found = [float(x) for x in numbers]
    return [*found, found[1] / max(found[0], 1)] if pair else found


def _family() -> list[int]:
    """Return this process and all that descend from it, such as a JVM."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found = [os.getpid()]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def _cpu() -> float:
    """Return the CPU seconds of the family, ended children too."""
    ticks = 0
    for one in _family():
        try:
            ticks += sum(map(int, Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()[11:15]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def _peak() -> float:
    """Return the most memory that each of the family has held, added up, in MB."""
    kib = 0
    for one in _family():
        try:
            lines = Path(f"/proc/{one}/status").read_text().splitlines()
        except OSError:
            continue
        kib += next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
    return kib / 1024


def report(queries: Callable[[], Mapping[str, Callable[[str], Numbers]]], name: str, path: str, runs: int) -> None:
    """Print the numbers of each run, the median cost, and the memory, as JSON; the refusal where there is one."""
    found, spent = [], []
    try:
        run = queries().get(name)
        for _ in range(runs if run is not None else 0):
            cpu = _cpu()
            found.append(run(path))  # type: ignore[misc]  # there are no runs without it
            spent.append(_cpu() - cpu)
        said = None if run is not None else "not supported"
    except Exception as error:  # what a library refuses is a result too
        said = f"{type(error).__name__}: {error}"[:300]
    median = sorted(spent)[len(spent) // 2] if spent else None
    print("\n" + json.dumps({"cpu": median, "peak_mb": _peak(), "said": said, "runs": found}))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    report(PEERS[sys.argv[1]], sys.argv[2], sys.argv[3], int(sys.argv[4]))
