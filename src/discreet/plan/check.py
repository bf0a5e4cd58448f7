"""A second derivation of the cost, from the final SQL alone; it shares no code with the first.

It parses the text that the database will run, recognises the shape of a bounded aggregate, reads off how
many groups a unit can
enter and between which integers its contribution lies, and recomputes what the plan's noise then costs. A
text of any other shape,
or a cost above the promise, is an InternalError before anything is charged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Never

import sqlglot
from sqlglot import exp

from discreet.errors import InternalError
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise

if TYPE_CHECKING:
    from discreet.plan.plan import Plan

_INF = math.inf


@dataclass(frozen=True, slots=True)
class Derived:
    """What the SQL says of one unit.

    Attributes:
        groups: how many groups it can enter; None when the text does not bound it.
        spans: for each integer column, the least and the greatest it can add to a group.
    """

    groups: int | None
    spans: tuple[tuple[int, int], ...]


def check(sql: str, plan: Plan) -> None:
    """Refuses a plan whose SQL does not bound what its noise was chosen for.

    Raises:
        InternalError: the two derivations disagree.
    """
    derived = derive(sql)
    declared = plan.question.keys.count
    groups = declared if derived.groups is None else derived.groups
    if groups is None:
        _disagree("the groups of a unit are not bounded")
    if declared is not None:
        groups = min(groups, declared)
    noises = plan.allocation.noises
    replace = plan.question.table.relation.value == "replace"
    epsilon, mu_squared = Fraction(0), Fraction(0)
    for span, noise in zip(derived.spans, noises, strict=False):
        l1, l2_squared = _moves(span, groups, declared, replace=replace)
        if isinstance(noise, DiscreteLaplaceNoise):
            epsilon += Fraction(l1) / noise.scale
        elif isinstance(noise, RoundedGaussianNoise):
            mu_squared += Fraction(l2_squared) / noise.sigma**2
        else:
            _disagree("a noise of unknown kind")
    extra = 0 if plan.allocation.threshold is None else 1
    if len(derived.spans) != len(noises) + extra:
        _disagree("the number of columns")
    _check_total(plan, epsilon, mu_squared, groups, replace=replace)


def derive(sql: str) -> Derived:
    """What the text alone says of one unit's reach.

    Raises:
        InternalError: a shape that is not known to be bounded.
    """
    tree = sqlglot.parse_one(sql, dialect="duckdb")
    ctes = {c.alias: c.this for c in tree.find_all(exp.CTE)}
    bounded = ctes.get("unit bounded")
    if not isinstance(tree, exp.Select) or not isinstance(bounded, exp.Select):
        _disagree("the shape of the query")
    keys, sums = _split(tree)
    inner = {e.alias_or_name: e.unalias() for e in bounded.expressions}
    if "row groups" in ctes:
        return Derived(1, _rows(tree, ctes, keys, sums, inner))
    if _reads(tree) != "unit bounded":
        _disagree("the shape of the query")
    _only(tree, {"expressions", "from_", "group", "with_"})
    _grouped_by(tree, keys)
    return Derived(_ranked(bounded, keys), tuple(_per_unit(s, inner, ctes, keys) for s in sums))


def _rows(
    tree: exp.Select,
    ctes: dict[str, exp.Expr],
    keys: list[str],
    sums: list[exp.Expr],
    inner: dict[str, exp.Expr],
) -> tuple[tuple[int, int], ...]:
    """Each row is a unit: it is in one group, found again by at most one key."""
    groups, bounded = ctes["row groups"], ctes["unit bounded"]
    if not isinstance(groups, exp.Select) or not isinstance(bounded, exp.Select):
        _disagree("the stages of the query")
    if _reads(tree) != "row groups" or _reads(groups) != "unit bounded":
        _disagree("the shape of the query")
    _only(tree, {"expressions", "from_", "joins", "with_"})
    _only(groups, {"expressions", "from_", "group"})
    _only(bounded, {"expressions", "from_", "where"})
    _grouped_by(groups, keys)
    for join in tree.args.get("joins") or []:
        looked_up = ctes.get(join.this.name)
        if not isinstance(looked_up, exp.Select) or looked_up.args.get("group") is None:
            _disagree("a key that a group could match twice")
        if [e.name for e in looked_up.args["group"].expressions] != ["v"]:
            _disagree("a key that a group could match twice")
    totals = {e.alias_or_name: e.unalias() for e in groups.expressions}
    return tuple(_per_row(totals[s.name], inner) for s in sums)


def _split(tree: exp.Select) -> tuple[list[str], list[exp.Expr]]:
    """The group keys and the sums of the outermost SELECT; a sum is CAST(coalesce(…, 0) AS text)."""
    keys, sums = [], []
    for e in tree.expressions:
        text = e.unalias()
        if isinstance(text, exp.Column):
            keys.append(e.alias_or_name)
            continue
        inner = text.this if isinstance(text, exp.Cast) and text.to.is_type("text") else text
        if isinstance(inner, exp.Coalesce) and [x.name for x in inner.expressions] == ["0"]:
            inner = inner.this
        elif not isinstance(inner, exp.Coalesce):
            _disagree("a column that is not a sum")
        sums.append(inner)
    return keys, sums


def _per_unit(
    total: exp.Expr, inner: dict[str, exp.Expr], ctes: dict[str, exp.Expr], keys: list[str]
) -> tuple[int, int]:
    """sum(m) over units, where m is one bounded integer per unit and group."""
    groups, rows = ctes["unit groups"], ctes.get("unit rows")
    if not isinstance(groups, exp.Select) or not isinstance(rows, exp.Select):
        _disagree("the stages of the query")
    if _reads(groups) != "unit rows":
        _disagree("what the units are grouped from")
    _only(groups, {"expressions", "from_", "group"})
    _grouped_by(groups, ["u", *keys])
    if {e.alias_or_name for e in rows.expressions} < {"u", *keys}:
        _disagree("the columns of the rows")
    if not any(isinstance(c, exp.Not) and isinstance(c.this, exp.Is) for c in _conjuncts(rows)):
        _disagree("rows without a unit are not dropped")
    if not isinstance(total, exp.Sum) or not isinstance(total.this, exp.Column):
        _disagree("a column that is not the sum of one bounded number")
    counts = {
        e.alias for e in groups.expressions if isinstance(e, exp.Alias) and isinstance(e.this, exp.Count)
    }
    return _whole(_interval(inner[total.this.name], counts))


def _per_row(total: exp.Expr, inner: dict[str, exp.Expr]) -> tuple[int, int]:
    """A sum over rows that are units: what one row adds."""
    if isinstance(total, exp.Count):
        return 0, 1
    if isinstance(total, exp.Sum) and isinstance(total.this, exp.Column):
        low, high = _whole(_interval(inner[total.this.name], set()))
        return min(low, 0), max(high, 0)
    if isinstance(total, exp.Paren) and isinstance(
        total.this, exp.Sub
    ):  # sum(v) − count(v)·c: each row adds v − c
        summed, counted = total.this.find(exp.Sum), total.this.expression.find(exp.Count)
        factor = total.this.expression
        if (
            summed is not None
            and counted is not None
            and summed.this == counted.this
            and isinstance(factor, exp.Mul)
        ):
            low, high = _whole(_interval(inner[summed.this.name], set()))
            c = int(_number(factor.expression))
            return min(low - c, 0), max(high - c, 0)
    return _disagree("a column that is not a sum over rows")


def _ranked(bounded: exp.Select, keys: list[str]) -> int | None:
    """The k of QUALIFY row_number() OVER (PARTITION BY u ORDER BY …, every key) <= k; None when nothing ranks."""
    _only(bounded, {"expressions", "from_", "qualify"})
    if _reads(bounded) != "unit groups":
        _disagree("what is bounded")
    qualify = bounded.args.get("qualify")
    if qualify is None:
        return None
    test = qualify.this
    if (
        not isinstance(test, exp.LTE)
        or not isinstance(test.this, exp.Window)
        or not isinstance(test.this.this, exp.RowNumber)
    ):
        _disagree("how groups are ranked")
    window = test.this
    if [p.name for p in window.args["partition_by"]] != ["u"] or window.args.get("spec"):
        _disagree("over what groups are ranked")
    ordered = [o.this.name for o in window.args["order"].expressions if isinstance(o.this, exp.Column)]
    if ordered != keys:
        _disagree("the order of a unit's groups is not total")
    return int(_number(test.expression))


def _interval(e: exp.Expr, counts: set[str]) -> tuple[float | int, float | int]:
    """Bounds of an SQL number whatever its columns hold, NULL aside; columns in `counts` are at least 0."""
    match e:
        case exp.Literal() | exp.Neg():
            n = _number(e)
            return n, n
        case exp.Column():
            return (0 if e.name in counts else -_INF), _INF
        case exp.Paren() | exp.Cast() | exp.Alias():
            return _interval(e.this, counts)
        case exp.Least() | exp.Greatest():
            parts = [_interval(x, counts) for x in (e.this, *e.expressions)]
            pick = min if isinstance(e, exp.Least) else max
            return pick(p[0] for p in parts), pick(p[1] for p in parts)
        case exp.Coalesce():
            parts = [_interval(x, counts) for x in (e.this, *e.expressions)]
            return min(p[0] for p in parts), max(p[1] for p in parts)
        case exp.Case():
            arms = [_interval(i.args["true"], counts) for i in e.args["ifs"]]
            arms += [_interval(e.args["default"], counts)] if e.args.get("default") else []
            return min(a[0] for a in arms), max(a[1] for a in arms)
        case exp.Round():
            low, high = _interval(e.this, counts)
            return (math.ceil(low - 0.5) if low > -_INF else low), (
                math.floor(high + 0.5) if high < _INF else high
            )
        case exp.Mul():
            ends = [_times(a, b) for a in _interval(e.this, counts) for b in _interval(e.expression, counts)]
            return min(ends), max(ends)
        case _:
            return -_INF, _INF


def _times(a: float | int, b: float | int) -> float | int:
    return 0 if a == 0 or b == 0 else a * b


def _moves(span: tuple[int, int], k: int, groups: int | None, *, replace: bool) -> tuple[int, int]:
    """(ℓ1, squared ℓ2) of the worst change, by trying every number of shared groups."""
    low, high = min(span[0], 0), max(span[1], 0)
    far, width = max(-low, high), high - low
    if not replace:
        return k * far, k * far * far
    best1 = best2 = 0
    for shared in range(k + 1):
        fresh = 2 * (k - shared)
        if groups is not None:
            fresh = min(fresh, groups - shared)
        if fresh < 0:
            continue
        best1 = max(best1, shared * width + fresh * far)
        best2 = max(best2, shared * width * width + fresh * far * far)
    return best1, best2


def _check_total(plan: Plan, epsilon: Fraction, mu_squared: Fraction, k: int, *, replace: bool) -> None:
    """What the derived movements cost under the plan's noise, against the promise."""
    a = plan.allocation
    epsilon += sum(
        (Fraction(1) / n.scale for n in a.reports if isinstance(n, DiscreteLaplaceNoise)), Fraction(0)
    )
    delta = Fraction(0)
    if a.threshold is not None:
        epsilon += a.threshold.epsilon
        delta += a.threshold.delta
        touched = 2 * k if replace else k
        if a.threshold.max_groups < k or a.threshold.touched < touched:
            _disagree("the selection of groups is for fewer groups")
    if mu_squared:
        left = a.guarantee.epsilon - epsilon
        delta_left = float(a.guarantee.delta - delta)
        if left <= 0 or _gaussian_delta(math.sqrt(mu_squared), float(left)) > delta_left * (1 + 1e-9):
            _disagree("the Gaussian columns cost more than is left for them")
    elif epsilon > a.guarantee.epsilon and (a.guarantee.delta == 0 or a.threshold is not None):
        _disagree("the columns cost more ε than is charged")
    if delta > a.guarantee.delta:
        _disagree("the selection of groups costs more δ than is charged")


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ): Balle, Wang 2018, Theorem 8."""

    def normal(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    return normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu)


def _reads(select: exp.Select) -> str:
    source = select.args["from_"].this
    return source.name if isinstance(source, exp.Table) and not source.args.get("joins") else ""


def _conjuncts(select: exp.Select) -> list[exp.Expr]:
    where = select.args.get("where")
    return (
        list(where.this.flatten())
        if where is not None and isinstance(where.this, exp.And)
        else [where.this]
        if where
        else []
    )


def _only(select: exp.Select, allowed: set[str]) -> None:
    if any(part and name not in allowed for name, part in select.args.items()):
        _disagree("a clause in a place where none belongs")


def _grouped_by(select: exp.Select, keys: list[str]) -> None:
    group = select.args.get("group")
    found = [e.name for e in group.expressions] if group is not None else []
    if found != keys:
        _disagree("what is grouped by")


def _number(e: exp.Expr) -> float | int:
    if isinstance(e, exp.Neg):
        return -_number(e.this)
    if isinstance(e, exp.Cast):
        return _number(e.this)
    if isinstance(e, exp.Literal):
        return float(e.name) if e.is_string or not e.name.lstrip("-").isdigit() else int(e.name)
    return _disagree("a bound that is not a constant")


def _whole(interval: tuple[float | int, float | int]) -> tuple[int, int]:
    low, high = interval
    if low == -_INF or high == _INF:
        _disagree("a contribution without bounds")
    return math.floor(low), math.ceil(high)


def _disagree(what: str) -> Never:
    raise InternalError(
        f"The second derivation of this question's cost disagrees with the first about {what}. Nothing was charged.",
        hint="please report the question",
    )
