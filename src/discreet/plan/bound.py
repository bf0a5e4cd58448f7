"""The SQL that the database runs: a unit's contribution is bounded first, then summed over units as integers.

Guarantee:
    In the text that `bounded_sql` returns, a unit enters at most `max_groups` groups: they are ranked by a
    total order (a
    hash under the account's secret `$secret`, then the group itself), so a collision of hashes changes nothing. In each
    group it adds to each column one integer within the measure's span. Where a cap on all rows of a unit is tighter, at
    most so many of its rows are tallied: the first ones in an order by all that is read of a row afterwards. Rows
    without a unit are dropped. Only integers and group keys leave, the integers as text, since a client would turn 128
    bits into floats.

Lists of declared keys are constants with their places: `"key i"` has each value once, since it groups by the
value; so a row finds at most one entry of it, even where the database finds two constants equal that differ
here (docs/proofs/bounding.md).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from discreet.catalog.schema import Scalar, TableSchema
from discreet.catalog.types import Type
from discreet.errors import MissingBounds
from discreet.mechanisms.rounds import WHOLE
from discreet.plan.auto_bounds.caps import place_sql
from discreet.plan.auto_bounds.ranges import value_place_sql
from discreet.plan.measures.lattice_value import LatticeValue
from discreet.plan.measures.measure import DistinctCount, DistinctTotal, Measure, Name, Part, Tally, UnitCount
from discreet.plan.quantile_tree.shape import MOST_LEAVES, TreeShape
from discreet.privacy.unit import PrivacyUnit
from discreet.query.expr import Column, Expr, constant, finite, quoted, raw
from discreet.query.keys import GroupKeys, JointKeys

if TYPE_CHECKING:
    from discreet.plan.question import Question

SECRET = "$secret"  # noqa: S105  # the placeholder, not a secret
"""The placeholder of the account's secret key; the key itself is never written into a query's text."""


@dataclass(frozen=True, slots=True)
class BoundedQuery:
    """What the writer needs: the table, the row filter, the groups, the measures, and the caps. `rows` is the SELECT
    that gives the table's rows, where they are not just those of a connected one; `most` is how many rows of a unit are
    read in all, None where the other caps leave no more; `unit` is SQL for a row's unit.
    """

    table: TableSchema
    where: Expr | None
    keys: GroupKeys
    measures: tuple[Measure, ...]
    max_groups: int
    max_rows: int
    rows: str | None = None
    most: int | None = None
    unit: str = field(init=False, default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        column = self.table.unit.column
        if column is not None:
            kind = self.table.columns[column]
            assert kind is not None
            object.__setattr__(self, "unit", finite(Column(column, kind)))

    @property
    def ranks_groups(self) -> bool:
        """Whether a unit's groups are ranked: not when it can enter every group, or its rows are in no more."""
        return _ranks_groups(self.table.unit, self.keys.count, self.most)

    @property
    def as_tallied(self) -> str:
        """The stage of the rows that are tallied."""
        return "unit rows" if self.most is None else "unit capped"


def bounding(question: Question) -> BoundedQuery:
    """Return the query as the writer of SQL takes it; the units of groups that are selected are counted last.

    Raises:
        MissingBounds: its unit has no caps.
    """
    unit, groups = question.table.unit, question.keys.count
    if unit.caps is None:
        raise MissingBounds(
            "How much of the data one unit may add has not been said.",
            hint=f"unit=dp.PrivacyUnit({unit.column!r}, max_groups=3, max_rows=10): at most 3 groups, 10 rows in each",
        )
    k = unit.caps[0] if groups is None else min(unit.caps[0], groups)
    sums = tuple(m for m in question.measures if not m.is_apart)
    measures = sums if groups is not None else (*sums, UnitCount())
    rows = None if question.relation is None else question.relation.sql
    most = _most(unit, groups)
    return BoundedQuery(question.table, question.where, question.keys, measures, k, unit.caps[1], rows, most)


def _most(unit: PrivacyUnit, groups: int | None) -> int | None:
    """Return how many rows of a unit are read in all; None where its caps in each group leave no more than that.

    With one group, the cap in it is the cap on all, and means and quantiles lose no row by it.
    """
    if unit.max_contributions is None or unit.caps is None:
        return None
    k = unit.caps[0] if groups is None else min(unit.caps[0], groups)
    return unit.max_contributions if unit.max_contributions < k * unit.caps[1] else None


def _ranks_groups(unit: PrivacyUnit, groups: int | None, most: int | None) -> bool:
    if unit.is_row:
        return False
    k = None if unit.caps is None else unit.caps[0]
    return (groups is None or k is None or groups > k) and (most is None or k is None or most > k)


def bounded_sql(b: BoundedQuery) -> str:
    """Return the query's SQL: one row per group with its keys (`g0`, …) and bounded sums (`m0`, …)."""
    return _per_row(b) if b.table.unit.is_row else _per_unit(b)


def distinct_sql(b: BoundedQuery, measure: DistinctCount | DistinctTotal) -> str:
    """Return the SQL of COUNT(DISTINCT x) or SUM(DISTINCT x): for each group its keys (`g0`, …) and the number or the
    sum of its different values (`m0`).

    Guarantee:
        A unit enters the same groups as in the query's other columns, at most `max_groups`, and in each it brings at
        most `max_rows` different values, which follow from its own rows: the first ones by a hash under the account's
        secret, then by the value itself. So the count of a group moves by at most `max_rows` when one unit comes or
        goes, and when its rows become others; a sum by as many times the greatest value (docs/proofs/distinct.md). A
        cap on all rows of a unit is one on its pairs of a group and a value, chosen in the same way.

    References:
        Knop, Steinke 2023, *Counting distinct elements under person-level differential privacy*, Section 1,
        https://arxiv.org/abs/2308.12947 (bounded counts; there the values that people bring are matched, so that
        two people bring the same one less often)
    """
    if isinstance(measure, DistinctTotal):
        v = measure.value
        value, inside = f"{lattice_sql(v)} AS d", f"least(greatest(d, {v.low}), {v.high})"
        number = f"coalesce(sum(DISTINCT {inside}) FILTER (WHERE d IS NOT NULL), 0)"
    else:
        value, number = f"{finite(measure.argument)} AS d", "count(DISTINCT d)"
    if b.table.unit.is_row:
        return _of_rows(b, [value], [number])
    g = _names("g", len(b.keys.exprs))
    by = f" GROUP BY {', '.join(g)}" if g else ""
    counted = ", ".join([*g, f"CAST({number} AS VARCHAR) AS m0"])
    each = ", ".join(["u", *g])
    # known values first, so that a row without one takes no place
    known = f"ORDER BY d IS NULL, hash({each}, d, {SECRET})"
    ranks = [f"row_number() OVER (PARTITION BY {each} {known}, d) <= {b.max_rows}"]
    if b.most is not None:
        values = f"row_number() OVER (PARTITION BY u {known}, {', '.join([*g, 'd'])}) <= {b.most}"
        ranks = [*(ranks if b.max_rows < b.most else []), values]
    if b.ranks_groups:
        ranks.append(f"dense_rank() OVER (PARTITION BY u ORDER BY {_order(b)}) <= {b.max_groups}")
    return (
        f'{rows_with(b, [value])},\n"unit values" AS (\n  SELECT {each}, d FROM "unit rows" GROUP BY {each}, d\n),\n'
        f'"unit bounded" AS (\n  SELECT {", ".join([*g, "d"])} FROM "unit values"\n  QUALIFY {" AND ".join(ranks)}\n)\n'
        f'SELECT {counted} FROM "unit bounded"{by}'
    )


def weights_sql(b: BoundedQuery) -> str:
    """Return the SQL of a round of selection: for each group its keys (`g0`, …), a hash of these (`h`), and the sum of
    its weights (`m0`), both as text. No group is shown so far; `with_shown` says otherwise.

    Guarantee:
        A unit keeps the same groups as in the query's other columns. Of n of them that are not shown it gives
        ⌊2²⁰/√n⌋ to each, whatever is shown: the floats of the database give just this number (docs/proofs/rounds.md).
    """
    g = _names("g", len(b.keys.exprs))
    # the rows that a cap on all of them keeps follow from every column that is read of them
    counted = b if b.most is not None else replace(b, measures=(UnitCount(),))
    keys, own = ", ".join(g), ", ".join(f"b.{k}" for k in g)
    left = ", ".join(f"b.{k} AS {k}" for k in ["u", *g])
    weight = f"floor({WHOLE} / sqrt(count(*) OVER (PARTITION BY u)))"
    return (
        f'{_bounded(counted, ["u", *g])},\n"shown" AS (\n  SELECT TRY_CAST(unnest({_NONE_SHOWN}) AS UBIGINT) AS h\n),\n'
        f'"unit left" AS (\n  SELECT {left} FROM "unit bounded" b LEFT JOIN "shown" k ON hash({own}) = k.h'
        f'\n  WHERE k.h IS NULL\n),\n"group weights" AS (\n'
        f'  SELECT {keys}, CAST(least(greatest({weight}, 0), {WHOLE}) AS BIGINT) AS w FROM "unit left"\n)\n'
        f"SELECT {keys}, CAST(hash({keys}) AS VARCHAR) AS h, CAST(coalesce(sum(w), 0) AS VARCHAR) AS m0 "
        f'FROM "group weights" GROUP BY {keys}'
    )


_NONE_SHOWN = "string_split('', ',')"


def with_shown(text: str, shown: Collection[int]) -> str:
    """Return the SQL of a later round: without the groups of these hashes, which were shown before. What is taken for
    one of them by chance is left out as well.
    """
    return f"{before_shown(text)}string_split('{','.join(map(str, shown))}', ','){text.rpartition(_NONE_SHOWN)[2]}"


def before_shown(text: str) -> str:
    """Return what stands before the shown groups in a round's text: all that a user wrote."""
    return text.rpartition(_NONE_SHOWN)[0]


def tree_sql(b: BoundedQuery, shape: TreeShape) -> str:
    """Return the SQL of a tree: for each group and leaf the keys (`g0`, …), the leaf `b` and its weight `m0` as text.

    Guarantee:
        A unit keeps the same groups as in the query's other columns. In each of them, n of its rows have a value,
        and each of these has the weight ⌊total / max(n, max_rows)⌋, so that together they have at most `total`. Where
        each row is a unit, its weight is 1 and it is in one group.
    """
    one = replace(b, measures=(shape,))
    keys = _names("g", len(b.keys.exprs))
    steps = f"(r.v0 - CAST({shape.value.low} AS BIGINT)) // {shape.width}"  # in 64 bits: v0 may have 32
    leaf = f"CAST({steps} AS {_leaf_kind(shape.leaves)})"
    shown = ", ".join([*(f"r.{g} AS {g}" for g in keys), f"{leaf} AS b"])
    by = ", ".join([*(f"r.{g}" for g in keys), "b"])
    found = f'FROM "{b.as_tallied}" r'
    weight = "count(*)"
    if not b.table.unit.is_row:
        same = "=" if b.keys.lists is not None else "IS NOT DISTINCT FROM"
        on = " AND ".join(["r.u = w.u", *(f"r.{g} {same} w.{g}" for g in keys)])
        found += f' JOIN "unit weights" w ON {on}'
        weight = "sum(w.w)"
    return (
        f"{_weighted(one)}\nSELECT {shown}, CAST({weight} AS VARCHAR) AS m0\n"
        f"{found} WHERE r.v0 IS NOT NULL GROUP BY {by}"
    )


def totals_sql(b: BoundedQuery, tests: Sequence[str], places: int) -> str:
    """How many units there are for each set of tests that hold, `places` counts, on how many groups a unit has rows in
    (`groups`), on how many rows at most in one of them (`most`), and on how many in all (`total`).
    """
    rows, groups, _ = _stages(replace(b, measures=(), most=None))
    totals = 'SELECT u, count(*) AS groups, sum(n) AS total, max(n) AS most FROM "unit groups" GROUP BY u'
    return (
        f'WITH {_keys_with(b)}{rows},\n{groups},\n"unit totals" AS (\n  {totals}\n),\n'
        f"{_placed([_set_of(tests)], 'unit totals')}\n{_tabled([places], 'unit places')}"
    )


def columns_sql(b: BoundedQuery, columns: Sequence[tuple[Sequence[str], int]]) -> str:
    """For each of `columns`, which are tests on a row and a number of places: how many units have no row of which one
    of the tests holds, and how many have rows of each set of tests; where each row is a unit, of the first that holds.

    A row that is in no declared group is counted like any other: a test can ask whether `k0.g` is NULL.
    """
    places = [n for _, n in columns]
    source = f"FROM {_table(b)}{_joins(b, [finite(e) for e in b.keys.exprs], 'LEFT JOIN')}{_where(b)}"
    if b.table.unit.is_row:
        shown = [_first_of(tests) for tests, _ in columns]
        rows = f'"unit rows" AS (\n  SELECT {_as("p", shown)}\n  {source}\n)'
        return f"WITH {_keys_with(b)}{rows}\n{_tabled(places, 'unit rows')}"
    flat = [test for tests, _ in columns for test in tests]
    unit = f"{b.unit} AS u"
    rows = f'"unit rows" AS (\n  SELECT {unit}, {_as("y", [f"CASE WHEN {t} THEN 1 END" for t in flat])}\n  {source}\n)'
    tallies = _as("n", [f"count(y{i})" for i in range(len(flat))])
    groups = f'"unit groups" AS (\n  SELECT u, {tallies} FROM "unit rows" GROUP BY u\n)'
    own = iter(_names("n", len(flat)))
    sets = [_set_of([f"{next(own)} > 0" for _ in tests]) for tests, _ in columns]
    return f"WITH {_keys_with(b)}{rows},\n{groups},\n{_placed(sets, 'unit groups')}\n{_tabled(places, 'unit places')}"


def _first_of(tests: Sequence[str]) -> str:
    """1 where the first of the tests holds, else 2 where the second does, and so on; 0 where none does."""
    return f"CASE {' '.join(f'WHEN {test} THEN {i}' for i, test in enumerate(tests, 1))} ELSE 0 END"


def _set_of(tests: Sequence[str]) -> str:
    """Return the tests that hold, as the bits of a number."""
    return " + ".join(f"CASE WHEN {test} THEN {1 << i} ELSE 0 END" for i, test in enumerate(tests))


def _tabled(places: Sequence[int], stage: str) -> str:
    """How many rows of a stage have each place, of each of its columns p0, p1, …: one row of counts."""
    cells = [(column, place) for column, n in enumerate(places) for place in range(n)]
    counts = [f"CAST(count(*) FILTER (WHERE p{column} = {place}) AS VARCHAR)" for column, place in cells]
    return f'SELECT {_as("m", counts)} FROM "{stage}"'


def _as(prefix: str, texts: Sequence[str]) -> str:
    """Return the texts as columns, under numbered names."""
    return ", ".join(f"{text} AS {name}" for text, name in zip(texts, _names(prefix, len(texts)), strict=True))


def census_sql(b: BoundedQuery) -> str:
    """How many units there are of each kind (`place_sql`): of so many groups, so many rows, and so uneven."""
    rows, groups, _ = _stages(replace(b, measures=(), most=None))
    places = place_sql("groups", "total", "most")
    totals = "u, count(*) AS groups, sum(n) AS total, max(n) AS most"
    return (
        f"WITH {_keys_with(b)}{rows},\n{groups},\n"
        f'"unit totals" AS (\n  SELECT {totals}\n  FROM "unit groups" GROUP BY u\n),\n'
        f"{_placed(places, 'unit totals')}\n{_counted(len(places), ', '.join(_names('p', len(places))))}"
    )


def values_sql(b: BoundedQuery, values: Sequence[Expr]) -> str:
    """For each two places of each value (`value_place_sql`), how many units have their largest value in one and their
    least in the other; where each row is a unit, how many rows have their value in a place. A row of the result is of
    one value.
    """
    n = len(values)
    columns = [f"{finite(e)} AS v{i}" for i, e in enumerate(values)]
    if b.table.unit.is_row:
        stages = f'"unit rows" AS (\n  SELECT {", ".join(columns)}\n  FROM {_source(b)}\n)'
        places = _placed([value_place_sql(f"v{i}") for i in range(n)], "unit rows")
    else:
        unit = f"{b.unit} AS u"
        ends = [f"{end}(v{i}) AS {name}{i}" for i in range(n) for end, name in (("max", "h"), ("min", "l"))]
        stages = (
            f'"unit rows" AS (\n  SELECT {", ".join([unit, *columns])}\n  FROM {_source(b)}\n),\n'
            f'"unit totals" AS (\n  SELECT u, {", ".join(ends)}\n  FROM "unit rows" GROUP BY u\n)'
        )
        places = _placed([value_place_sql(f"{e}{i}") for i in range(n) for e in "hl"], "unit totals")
    each = 1 if b.table.unit.is_row else 2
    names = _names("p", each * n)
    sets = ", ".join(f"({', '.join(names[i * each : (i + 1) * each])})" for i in range(n))
    return f"WITH {_keys_with(b)}{stages},\n{places}\n{_counted(each * n, f'GROUPING SETS ({sets})')}"


def _placed(places: Sequence[str], stage: str) -> str:
    """Return the stage that gives the places of a unit, once for each."""
    shown = ", ".join(f"{text} AS p{i}" for i, text in enumerate(places))
    return f'"unit places" AS (\n  SELECT {shown}\n  FROM "{stage}"\n)'


def _counted(places: int, by: str) -> str:
    shown = ", ".join(_names("p", places))
    return f'SELECT {shown}, CAST(count(*) AS VARCHAR) AS m0 FROM "unit places" GROUP BY {by}'


def rows_with(b: BoundedQuery, columns: Sequence[str]) -> str:
    """WITH and the query's rows (`"unit rows"`): their unit u where a unit has many, the keys, and these columns of
    each row.
    """
    unit = [] if b.table.unit.is_row else [f"{b.unit} AS u"]
    selected = ", ".join([*unit, *_key_columns(b), *columns])
    return f'WITH {_keys_with(b)}"unit rows" AS (\n  SELECT {selected}\n  FROM {_source(b)}\n)'


def needs_secret(of: BoundedQuery | Question) -> bool:
    """Return whether a unit's groups or rows are ranked: not when it can enter every group with all it has."""
    unit, groups = of.table.unit, of.keys.count
    most = _most(unit, groups)
    return most is not None or _ranks_groups(unit, groups, most)


def lattice_sql(v: LatticeValue) -> str:
    """Return the value clamped and rounded: NULL, or an integer in [v.low, v.high], whatever the row holds."""
    width = "INTEGER" if max(abs(v.low), abs(v.high)) < 1 << 31 else "BIGINT"
    if v.is_whole:
        text = finite(v.expr)
        return f"CASE WHEN {text} IS NOT NULL THEN CAST(least(greatest({text}, {v.low}), {v.high}) AS {width}) END"
    # exact: 31 bits times a power of two
    low, high = (constant(float(k * v.step), Type.REAL) for k in (v.low, v.high))
    text, scale = raw(v.expr), constant(float(1 / v.step), Type.REAL)
    # NaN would pass least/greatest as the upper bound, so it is turned away first
    steps = f"round(least(greatest({text}, {low}), {high}) * {scale})"
    return f"CASE WHEN isfinite({text}) THEN CAST({steps} AS {width}) END"


def contribution_stages(b: BoundedQuery) -> str:
    """WITH and the stages of the query's SQL up to `"unit bounded"`, in which the unit u stands beside what it adds
    to a group (`m0`, …) instead of the group's keys. No row of it is of two units.
    """
    return _bounded(b, ["u"])


def scope_stages(b: BoundedQuery) -> str:
    """WITH and `"unit rows"`: the unit u of each of the query's rows, whatever is measured of it."""
    rows, _, _ = _stages(replace(b, measures=(), most=None))
    return f"WITH {_keys_with(b)}{rows}"


def _weighted(b: BoundedQuery) -> str:
    """WITH, the query's rows (`"unit rows"`) and, where a unit has many, the weight w that its one measure gives to
    each of its rows in each group that it keeps (`"unit weights"`).
    """
    if b.table.unit.is_row:
        selected = ", ".join([*_key_columns(b), *_Values(b.measures).columns()])
        return f'WITH {_keys_with(b)}"unit rows" AS (\n  SELECT {selected}\n  FROM {_source(b)}\n)'
    rows, groups, name = _stages(b)
    (measure,) = b.measures
    kept = ", ".join(["u", *_names("g", len(b.keys.exprs)), f"{measure.clipped(name, b.max_rows)} AS w"])
    weights = f'"unit weights" AS (\n  SELECT {kept} FROM "unit groups"{_rank(b)}\n)'
    return f"WITH {_keys_with(b)}{rows},\n{groups},\n{weights}"


def _leaf_kind(leaves: int) -> str:
    """Return the narrowest type that holds every leaf: so few values have a place each in the database."""
    assert leaves <= MOST_LEAVES
    return "UTINYINT" if leaves <= 1 << 8 else "USMALLINT"


def _per_unit(b: BoundedQuery) -> str:
    if _adds_rows(b):
        return _per_capped_row(b)
    return f"{_bounded(b, _names('g', len(b.keys.exprs)))}\n{_totals(b)}"


def _adds_rows(b: BoundedQuery) -> bool:
    """Whether a cap on all rows of a unit stands alone and each row adds its own number, so that none are tallied."""
    alone = b.most is not None and b.max_rows >= b.most and not b.ranks_groups
    return alone and all(m.adds_up and not m.has_bounds for m in b.measures)


def _per_capped_row(b: BoundedQuery) -> str:
    """Return the sums over the rows that a cap on all of a unit's leaves: as many times what one row adds is what the
    unit adds.
    """
    values, g = _Values(b.measures), _names("g", len(b.keys.exprs))
    sums = [f"CAST(coalesce({m.summed(values.name)}, 0) AS VARCHAR) AS m{i}" for i, m in enumerate(b.measures)]
    by = f" GROUP BY {', '.join(g)}" if g else ""
    capped = _capped(b, ["u", *g, *values.names])
    return f'{rows_with(b, values.columns())}{capped}\nSELECT {", ".join([*g, *sums])} FROM "unit capped"{by}'


def _bounded(b: BoundedQuery, beside: Sequence[str]) -> str:
    """WITH and the stages up to what each unit adds to each group, with these columns beside it."""
    first = b.most is None and b.ranks_groups and (b.keys.count is None or b.keys.count > _FEW)
    rows, groups, name = _stages(b, kept=first)
    clipped = [f"{m.clipped(name, b.max_rows)} AS m{i}" for i, m in enumerate(b.measures)]
    rank = "" if first else _rank(b)
    bounded = f'"unit bounded" AS (\n  SELECT {", ".join([*beside, *clipped])} FROM "unit groups"{rank}\n)'
    return f"WITH {_keys_with(b)}{rows},\n{groups},\n{bounded}"


_FEW = 256
"""Up to so many declared groups a unit's rows are tallied before its groups are ranked. With more of them, most groups
of a unit have one row: then ranking the rows leaves little to tally, and costs half as much. Both keep the same groups.
"""


def _rank(b: BoundedQuery) -> str:
    """Return the clause that keeps so many groups of each unit, in an order under the account's secret."""
    if not b.ranks_groups:
        return ""
    return f"\n  QUALIFY row_number() OVER (PARTITION BY u ORDER BY {_order(b)}) <= {b.max_groups}"


def _kept(b: BoundedQuery, columns: Sequence[str]) -> str:
    """Return the stage of the rows that lie in the groups that `_rank` would keep: rows of one group have one rank."""
    rank = f"dense_rank() OVER (PARTITION BY u ORDER BY {_order(b)}) <= {b.max_groups}"
    return f',\n"unit kept" AS (\n  SELECT {", ".join(columns)} FROM "unit rows"\n  QUALIFY {rank}\n)'


def _capped(b: BoundedQuery, columns: Sequence[str]) -> str:
    """Return the stage of a unit's first rows, as many as may be read of it in all. The order ends in every column that
    is read later, so that rows with one rank are one and the same to all that follows.
    """
    read = ", ".join(columns)
    order = f"hash({read}, {SECRET})" + "".join(f", {c}" for c in columns[1:])
    rank = f"row_number() OVER (PARTITION BY u ORDER BY {order}) <= {b.most}"
    return f',\n"unit capped" AS (\n  SELECT {read} FROM "unit rows"\n  QUALIFY {rank}\n)'


def _order(b: BoundedQuery) -> str:
    """Return a total order of a unit's groups, which nobody without the secret can foresee."""
    g = _names("g", len(b.keys.exprs))
    return ", ".join([f"hash(u, {', '.join(g)}, {SECRET})", *g])


def _per_row(b: BoundedQuery) -> str:
    """Each row is a unit: nothing has to be grouped by unit, and the declared keys are looked up once per group."""
    values = _Values(b.measures)
    return _of_rows(b, [*values.columns(), "1 AS one"], [m.summed(values.name) for m in b.measures])


def _of_rows(b: BoundedQuery, columns: Sequence[str], totals: Sequence[str]) -> str:
    """Totals over the rows of each group, and these columns of each row."""
    g, n = _names("g", len(b.keys.exprs)), len(b.keys.exprs)
    raw_keys = [f"{finite(e)} AS g{i}" for i, e in enumerate(b.keys.exprs)]
    selected = [*raw_keys, *columns]
    rows = f'"unit bounded" AS (\n  SELECT {", ".join(selected)}\n  FROM {_table(b)}{_where(b)}\n)'
    sums = [f"{total} AS m{i}" for i, total in enumerate(totals)]
    by = f" GROUP BY {', '.join(g)}" if g else ""
    groups = f'"row groups" AS (\n  SELECT {", ".join([*g, *sums])} FROM "unit bounded"{by}\n)'
    shown = [f"k{i}.g AS g{i}" for i in range(n)] if b.keys.lists is not None else [f"r.g{i} AS g{i}" for i in range(n)]
    cells = [f"CAST(coalesce(r.m{i}, 0) AS VARCHAR) AS m{i}" for i in range(len(totals))]
    joins = _joins(b, [f"r.g{i}" for i in range(n)])
    return f'WITH {_keys_with(b)}{rows},\n{groups}\nSELECT {", ".join([*shown, *cells])} FROM "row groups" r{joins}'


class _Values:
    """The row-level columns that the tallies read, each once."""

    __slots__ = ("lattice", "presence")

    def __init__(self, measures: Sequence[Measure]) -> None:
        parts = [p for m in measures for p in m.parts]
        self.lattice = list(dict.fromkeys(v for m in measures for v in m.clamped))
        self.presence: list[Expr] = []
        for tally, value in parts:
            if tally is Tally.KNOWN and not isinstance(value, LatticeValue) and value is not None:
                known = value in self.presence or any(v.expr == value for v in self.lattice)
                if not known:
                    self.presence.append(value)

    @property
    def names(self) -> list[str]:
        """What the columns are called."""
        return [*_names("v", len(self.lattice)), *_names("x", len(self.presence))]

    def columns(self) -> list[str]:
        """Return the columns as they are computed from a row."""
        lattice = [f"{lattice_sql(v)} AS v{i}" for i, v in enumerate(self.lattice)]
        presence = [f"CASE WHEN {finite(e)} IS NOT NULL THEN 1 END AS x{i}" for i, e in enumerate(self.presence)]
        return lattice + presence

    def name(self, part: Part) -> str:
        """Return the row-level column that a part tallies."""
        _, value = part
        if isinstance(value, LatticeValue):
            return f"v{self.lattice.index(value)}"
        assert value is not None
        same = [i for i, v in enumerate(self.lattice) if v.expr == value]
        return f"v{same[0]}" if same else f"x{self.presence.index(value)}"


def _stages(b: BoundedQuery, *, kept: bool = False) -> tuple[str, str, Name]:
    """Return the first two stages: the query's rows, and the tallies of each unit in each group; `kept`: of the
    rows only those in the groups that the unit keeps.
    """
    values = _Values(b.measures)
    g = _names("g", len(b.keys.exprs))
    selected = ", ".join([f"{b.unit} AS u", *_key_columns(b), *values.columns()])
    rows = f'"unit rows" AS (\n  SELECT {selected}\n  FROM {_source(b)}\n)'
    rows += _kept(b, ["u", *g, *values.names]) if kept else ""
    rows += "" if b.most is None else _capped(b, ["u", *g, *values.names])
    tallies = ["count(*) AS n"]
    names: dict[str, str] = {}
    for m in b.measures:
        for tally, value in m.parts:
            if tally is Tally.ROWS:
                continue
            column = values.name((tally, value))
            text = f"{'count' if tally is Tally.KNOWN else 'sum'}({column})"
            if text not in names:
                names[text] = f"{'n' if tally is Tally.KNOWN else 's'}_{column}"
                tallies.append(f"{text} AS {names[text]}")
    by = ", ".join(["u", *g])
    read = "unit kept" if kept else b.as_tallied
    groups = f'"unit groups" AS (\n  SELECT {", ".join([by, *tallies])} FROM "{read}" GROUP BY {by}\n)'

    def name(part: Part) -> str:
        tally, _ = part
        if tally is Tally.ROWS:
            return "n"
        return f"{'n' if tally is Tally.KNOWN else 's'}_{values.name(part)}"

    return rows, groups, name


def _totals(b: BoundedQuery) -> str:
    g = _names("g", len(b.keys.exprs))
    sums = [f"CAST(coalesce(sum(m{i}), 0) AS VARCHAR) AS m{i}" for i in range(len(b.measures))]
    grouped = f" GROUP BY {', '.join(g)}" if g else ""
    return f'SELECT {", ".join([*g, *sums])} FROM "unit bounded"{grouped}'


def _source(b: BoundedQuery) -> str:
    """FROM, the joins to the declared keys and to listed combinations of them, and WHERE."""
    n, joins = len(b.keys.exprs), _joins(b, [finite(e) for e in b.keys.exprs])
    for i, (joint, _) in enumerate(_filtering(b)):
        joins += f' JOIN "key {n + i}" k{n + i} ON {_code_sql(b, joint)} = k{n + i}.v'
    return f"{_table(b)}{joins}{_where(b)}"


def _filtering(b: BoundedQuery) -> list[tuple[JointKeys, list[Scalar]]]:
    """Return the keys of which only listed combinations are groups, each with the numbers of these; none where each row
    is a unit, as nothing is ranked there.
    """
    if b.keys.lists is None or b.table.unit.is_row:
        return []
    found = []
    for joint in b.keys.joint:
        if not joint.some:
            continue
        places = [{v: i for i, v in enumerate(b.keys.lists[p])} for p in joint.places]
        codes: list[Scalar] = []
        for row in joint.rows:
            code = 0
            for value, at in zip(row, places, strict=True):
                code = code * len(at) + at[value]
            codes.append(code)
        found.append((joint, sorted(codes, key=lambda c: c or 0)))
    return found


def _code_sql(b: BoundedQuery, joint: JointKeys) -> str:
    """Return SQL for the number of a combination: its places in the lists of the keys, as digits."""
    assert b.keys.lists is not None
    first, *rest = joint.places
    text = f"k{first}.g"
    for place in rest:
        text = f"({text} * {len(b.keys.lists[place])} + k{place}.g)"
    return text


def _table(b: BoundedQuery) -> str:
    return f"main.{quoted(b.table.name)} s" if b.rows is None else f"({b.rows}) s"


def _joins(b: BoundedQuery, keys: Sequence[str], how: str = "JOIN") -> str:
    """Return the declared keys, looked up by the texts of key expressions; a row without one is dropped by a JOIN."""
    if b.keys.lists is None:
        return ""
    joins = ""
    for i, (key, values) in enumerate(zip(keys, b.keys.lists, strict=True)):
        same = "IS NOT DISTINCT FROM" if None in values else "="
        joins += f' {how} "key {i}" k{i} ON {key} {same} k{i}.v'
    return joins


def _where(b: BoundedQuery) -> str:
    conditions = [] if b.where is None else [finite(b.where)]
    if not b.table.unit.is_row:
        conditions.append(f"{b.unit} IS NOT NULL")
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _key_columns(b: BoundedQuery) -> list[str]:
    """Return declared keys by their place in the list, others by value."""
    if b.keys.lists is not None:
        return [f"k{i}.g AS g{i}" for i in range(len(b.keys.exprs))]
    return [f"{finite(e)} AS g{i}" for i, e in enumerate(b.keys.exprs)]


def _keys_with(b: BoundedQuery) -> str:
    if b.keys.lists is None:
        return ""
    pairs = [(values, e.type) for e, values in zip(b.keys.exprs, b.keys.lists, strict=True)]
    pairs += [(tuple(codes), Type.INT) for _, codes in _filtering(b)]
    return "".join(key_table_sql(i, values, kind) for i, (values, kind) in enumerate(pairs))


def _names(prefix: str, n: int) -> list[str]:
    return [f"{prefix}{i}" for i in range(n)]


SHORT = 12
"""Up to so many values are written one by one; longer lists as a range, or as one text that the database splits, which
is read a hundred times faster than so many constants.
"""

_SEPARATORS = (",", ";", "|", "\n", "\t", "\x1f")


def key_table_sql(place: int, values: Sequence[Scalar], kind: Type | None) -> str:
    """Return the stages that give the values of one key (`v`) with their places (`g`), followed by a comma."""
    spelled = _spelled(values, kind) if len(values) > SHORT else None
    if spelled is None:
        rows = ", ".join(f"({constant(v, kind)}, {j})" for j, v in enumerate(values))
        return f'"key {place}" AS (SELECT v, min(g) AS g FROM (VALUES {rows}) l(v, g) GROUP BY v),\n'
    places = f"unnest(range(0, {len(values)}))"
    return (
        f'"list {place}" AS (SELECT {spelled} AS v, {places} AS g),\n'
        f'"key {place}" AS (SELECT v, min(g) AS g FROM "list {place}" GROUP BY v),\n'
    )


def _spelled(values: Sequence[Scalar], kind: Type | None) -> str | None:
    """Return the values as rows of a SELECT without FROM; None where they have no such spelling."""
    if kind is Type.INT and _count_up(values):
        return f"unnest(range({values[0]}, {_after(values[-1])}))"
    words = [_word(v) for v in values]
    known = [w for w in words if w is not None]
    if len(known) != len(words) or kind is None:
        return None
    separator = next((s for s in _SEPARATORS if not any(s in w for w in known)), None)
    if separator is None:
        return None
    split = f"unnest(string_split({_text(separator.join(known))}, {_text(separator)}))"
    return split if kind is Type.TEXT else f"TRY_CAST({split} AS {kind.value})"


def _count_up(values: Sequence[Scalar]) -> bool:
    """Whether they are whole numbers, each one more than the one before."""
    first = values[0]
    if type(first) is not int or _after(values[-1]) > _MOST:
        return False
    return all(type(v) is int and v == first + i for i, v in enumerate(values))


def _after(last: Scalar) -> int:
    """Where a range ends that has this last: it leaves out its end."""
    return last + 1 if isinstance(last, int) else _MOST + 1


_MOST = (1 << 63) - 1


def _word(value: Scalar) -> str | None:
    """Return a value as text that the database reads as just this value."""
    match value:
        case str():
            return value
        case None | bool():
            return None
        case dt.datetime():
            return value.isoformat(sep=" ")
        case dt.date():
            return value.isoformat()
    return repr(value)


def _text(value: str) -> str:
    return constant(value, Type.TEXT)
