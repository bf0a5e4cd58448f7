"""TPC-H on our engine, customers protected: each query that a private engine can answer, with error and time.

    python -m benchmarks.tpch [--scale 1] [--epsilon 1] [--rounds 3] [--only Q5]

Each question is asked in its aggregate form (the queries that list single orders or customers are grouped by something
that is not a person), by our engine and, without privacy, by plain DuckDB on the same files. The error is the median
over the cells of |noisy − exact| / |exact|, for groups that both have: truncation and noise together. The last column
says how many of the exact groups are shown.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

import discreet as dp
from benchmarks.runner import Claim, Contender, Timing, alternate, save
from benchmarks.tpch_tables import tables

PRIVATE = {"customer": "c_custkey", "orders": "o_custkey", "lineitem": "l_orderkey -> orders.o_orderkey"}
PUBLIC = ("part", "supplier", "partsupp", "nation", "region")
COLUMNS: Mapping[str, Any] = {
    "l_quantity": dp.Range(1, 50),
    "l_extendedprice": dp.Range(900, 105_000),
    "l_discount": dp.Range(0, "0.1"),
    "l_tax": dp.Range(0, "0.08"),
    "o_totalprice": dp.Range(0, 600_000),
    "c_acctbal": dp.Range(-1000, 10_000),
    "l_returnflag": dp.Values("A", "N", "R"),
    "l_linestatus": dp.Values("F", "O"),
    "l_shipmode": dp.Values("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"),
    "o_orderpriority": dp.Values("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"),
}
REVENUE = "SUM(l_extendedprice * (1 - l_discount))"


@dataclass(frozen=True, slots=True)
class Query:
    """One query: its private form, the caps on a customer, and how many of its columns are keys.

    Attributes:
        sql: what is asked, of both engines.
        groups, rows: `max_groups` and `max_rows`.
        keys: the number of group keys, which are the first columns.
        delta: above 0 where the groups are selected privately.
        form: what was changed of the published text, and why.
    """

    sql: str
    groups: int
    rows: int
    keys: int = 0
    delta: float = 0
    form: str = "as published"


QUERIES: Mapping[str, Query] = {
    "Q1": Query(
        f"""SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price,
        {REVENUE} AS sum_disc_price, SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
        AVG(l_quantity) AS avg_qty, AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc, COUNT(*) AS n
        FROM lineitem WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus""",
        groups=4, rows=50, keys=2,
    ),
    "Q3": Query(
        f"""SELECT o_orderdate, {REVENUE} AS revenue FROM customer, orders, lineitem
        WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
        AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY o_orderdate ORDER BY revenue DESC LIMIT 10""",
        groups=2, rows=7, keys=1, delta=1e-6, form="by day of order instead of by single order",
    ),
    "Q4": Query(
        """SELECT o_orderpriority, COUNT(*) AS order_count FROM orders
        WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'
        AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority""",
        groups=2, rows=2, keys=1,
    ),
    "Q5": Query(
        f"""SELECT n_name, {REVENUE} AS revenue FROM customer, orders, lineitem, supplier, nation, region
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
        AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
        AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01' GROUP BY n_name""",
        groups=1, rows=3, keys=1,
    ),
    "Q6": Query(
        """SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem
        WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
        AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
        groups=1, rows=4,
    ),
    "Q7": Query(
        """SELECT supp_nation, cust_nation, l_year, SUM(volume) AS revenue FROM (
        SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, extract(year FROM l_shipdate) AS l_year,
        l_extendedprice * (1 - l_discount) AS volume
        FROM supplier, lineitem, orders, customer, nation n1, nation n2
        WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
        AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
        AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY') OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE'))
        AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') shipping
        GROUP BY supp_nation, cust_nation, l_year""",
        groups=2, rows=2, keys=3, delta=1e-6,
    ),
    "Q9": Query(
        """SELECT nation, o_year, SUM(amount) AS sum_profit FROM (
        SELECT n_name AS nation, extract(year FROM o_orderdate) AS o_year,
        l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
        FROM part, supplier, lineitem, partsupp, orders, nation
        WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey
        AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%') profit
        GROUP BY nation, o_year""",
        groups=4, rows=1, keys=2, delta=1e-6,
    ),
    "Q10": Query(
        f"""SELECT n_name, {REVENUE} AS revenue FROM customer, orders, lineitem, nation
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01'
        AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R' AND c_nationkey = n_nationkey
        GROUP BY n_name ORDER BY revenue DESC LIMIT 20""",
        groups=1, rows=5, keys=1, form="by nation instead of by single customer",
    ),
    "Q12": Query(
        """SELECT l_shipmode,
        SUM(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count,
        SUM(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low_line_count
        FROM orders, lineitem WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
        AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
        AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01' GROUP BY l_shipmode""",
        groups=1, rows=2, keys=1,
    ),
    "Q13": Query(
        """SELECT c_count, COUNT(*) AS custdist FROM (
        SELECT c_custkey, COUNT(o_orderkey) AS c_count FROM customer LEFT OUTER JOIN orders
        ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%' GROUP BY c_custkey) c_orders
        GROUP BY c_count ORDER BY custdist DESC, c_count DESC""",
        groups=1, rows=1, keys=1, delta=1e-6,
    ),
    "Q14": Query(
        f"""SELECT 100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
        / {REVENUE} AS promo_revenue FROM lineitem, part
        WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'""",
        groups=1, rows=4,
    ),
    "Q18": Query(
        """SELECT COUNT(*) AS orders, AVG(o_totalprice) AS price FROM customer, orders
        WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING SUM(l_quantity) > 300)
        AND c_custkey = o_custkey""",
        groups=1, rows=1, form="how many large orders and their mean price, instead of a list of them",
    ),
    "Q19": Query(
        f"""SELECT {REVENUE} AS revenue FROM lineitem, part WHERE p_partkey = l_partkey AND (
        (p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
        AND l_quantity >= 1 AND l_quantity <= 11 AND p_size BETWEEN 1 AND 5)
        OR (p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
        AND l_quantity >= 10 AND l_quantity <= 20 AND p_size BETWEEN 1 AND 10)
        OR (p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
        AND l_quantity >= 20 AND l_quantity <= 30 AND p_size BETWEEN 1 AND 15))
        AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON'""",
        groups=1, rows=1, form="the conditions that all branches share, written once",
    ),
    "Q22": Query(
        """SELECT cntrycode, COUNT(*) AS numcust, SUM(c_acctbal) AS totacctbal FROM (
        SELECT substring(c_phone, 1, 2) AS cntrycode, c_acctbal FROM customer
        WHERE substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17') AND c_acctbal > 5000
        AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) custsale GROUP BY cntrycode""",
        groups=1, rows=1, keys=1, delta=1e-6,
        form="the mean balance, an answer of its own, is written as 5000",
    ),
}  # fmt: skip


def plain(files: Mapping[str, Path], sql: str) -> list[tuple[Any, ...]]:
    """The exact answer, from the files, in a database opened for it."""
    with duckdb.connect() as db:
        for name, path in files.items():
            db.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}')")
        return db.execute(sql).fetchall()


def connect(files: Mapping[str, Path], query: Query) -> dp.Session:
    """Our session on the files, with the caps of one query."""
    return dp.connect(
        {name: str(path) for name, path in files.items()},
        unit=dp.PrivacyUnit("c_custkey", max_groups=query.groups, max_rows=query.rows, tables=PRIVATE),
        public=list(PUBLIC),
        columns=COLUMNS,
        budget=dp.Budget(epsilon=1_000_000, delta="0.5"),
        population="customers",
        ledger=":memory:",
    )


def off(query: Query, exact: Sequence[Sequence[Any]], noisy: Sequence[Sequence[Any]]) -> tuple[float, int, int]:
    """The median relative error over the cells of the groups that both answers have; how many those are, and all."""
    truth = {tuple(map(str, row[: query.keys])): row[query.keys :] for row in exact}
    errors, kept = [], 0
    for row in noisy:
        cells = truth.get(tuple(map(str, row[: query.keys])))
        kept += cells is not None
        for a, b in zip(cells or (), row[query.keys :], strict=False):
            if a:
                errors.append(abs(float(a) - float(b)) / abs(float(a)))
    return statistics.median(errors) if errors else float("nan"), kept, len(truth)


def main() -> None:
    """Asks, prints the table, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--epsilon", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only")
    options = parser.parse_args()
    files = tables(options.scale)
    timings: dict[str, list[Timing]] = {}
    claims: list[Claim] = []
    print("| query | form | groups × rows | plain CPU s | ours CPU s | ours ÷ plain | median error | groups shown |")
    print("|---|---|---|---|---|---|---|---|")
    for name, query in QUERIES.items():
        if options.only and name != options.only:
            continue
        exact = plain(files, query.sql)
        with connect(files, query) as session:
            asked: dict[str, Any] = {"epsilon": options.epsilon, "delta": query.delta, "fresh": True}
            errors = [off(query, exact, session.sql(query.sql, **asked).rows) for _ in range(3)]
            both = [
                Contender("plain", partial(plain, files, query.sql)),
                Contender("ours", partial(session.sql, query.sql, **asked)),
            ]
            timings[name] = alternate(both, rounds=options.rounds, warmup=0)
        base, ours = timings[name]
        error = statistics.median(e for e, _, _ in errors)
        _, kept, groups = errors[-1]
        claims.append(Claim(f"{name}, median relative error at ε = {options.epsilon:g}", error, 0.1, ""))
        print(
            f"| {name} | {query.form} | {query.groups} × {query.rows} | {base.cpu:.2f} | {ours.cpu:.2f} "
            f"| {ours.ratio(base)[0]:.1f} | {error:.2%} | {kept} of {groups} |",
            flush=True,
        )
    print(save(f"tpch-{options.scale:g}", timings, claims))


if __name__ == "__main__":
    main()
