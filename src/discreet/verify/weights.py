"""The statement of a round of selection, read from its text alone, and what the rounds then cost.

It is written apart from the writer (`weights_sql`) and from the mechanism (`GaussianRounds`).

For every text that fits, whatever the tables and the shown groups: a unit gives to each of at most `groups` groups a
weight that follows from its own rows, and of n groups each has ⌊2²⁰/√n⌋ (docs/proofs/rounds.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

from sqlglot import exp

from discreet.mechanisms.rounds import GaussianRounds
from discreet.verify.derive import Derived, PrivateRows, parsed, ranked, stage_of, unit_stages
from discreet.verify.price import RoundsCost
from discreet.verify.shapes import known_columns, lengths, of_one_row, outputs, read, reads_stage, reject, stages_of

_WHOLE = 1 << 20


def derive_weights(sql: str, source: PrivateRows) -> Derived:
    """Return which groups a unit weighs, how many at most; it has no columns.

    Raises:
        InternalError: a shape that is not known to bound the squares of a unit's weights by 2⁴⁰.
    """
    if source.unit is None:
        reject("the selection of groups")
    tree, ctes, source = parsed(sql, source)
    keys = [e.alias_or_name for e in tree.expressions[:-2]]
    if not keys or keys != [f"g{i}" for i in range(len(keys))]:
        reject("the order of the keys")
    stages, bounded = unit_stages(ctes, keys, source), stage_of(ctes, "unit bounded")
    reads_stage(bounded, "unit groups", {"expressions", "from_", "qualify"})
    for e in outputs(bounded, ["u", *keys]).values():
        of_one_row(e)
        known_columns(e, stages.tallies, None)
    found = [n for n in (stages.kept, ranked(bounded, keys), stages.most) if n is not None]
    _check_weights(tree, ctes, keys)
    return Derived(min(found, default=None), (), len(keys), lengths(stages.listed, keys))


def _check_weights(tree: exp.Select, ctes: Mapping[str, exp.Expr], keys: Sequence[str]) -> None:
    """Check that what follows `"unit bounded"` is just the weights: of the groups of a unit that no list of hashes has,
    each once, and the same for each.
    """
    shown = stage_of(ctes, "shown")
    texts = [e.name for e in shown.find_all(exp.Literal) if e.is_string]
    if not texts or re.fullmatch(r"(\d{1,20}(,\d{1,20})*)?", texts[0]) is None:
        reject("the groups that were shown before")
    wanted = _wanted(texts[0], tuple(keys))
    stages = stages_of(wanted)
    if any(ctes.get(name) != stages[name] for name in stages) or not {"with_"} >= _differing(tree, wanted):
        reject("the weights of the groups")


@lru_cache(maxsize=8)
def _wanted(shown: str, keys: tuple[str, ...]) -> exp.Select:
    """Return what weighs the groups of these keys but those that were shown before."""
    names, own = ", ".join(keys), ", ".join(f"b.{k}" for k in keys)
    passed = ", ".join(f"b.{k} AS {k}" for k in ("u", *keys))
    weight = f"least(greatest(floor({_WHOLE} / sqrt(count(*) OVER (PARTITION BY u))), 0), {_WHOLE})"
    wanted = read(
        f"WITH \"shown\" AS (SELECT TRY_CAST(unnest(string_split('{shown}', ',')) AS UBIGINT) AS h), "
        f'"unit left" AS (SELECT {passed} FROM "unit bounded" b LEFT JOIN "shown" k ON hash({own}) = k.h '
        f'WHERE k.h IS NULL), "group weights" AS (SELECT {names}, CAST({weight} AS BIGINT) AS w FROM "unit left") '
        f"SELECT {names}, CAST(hash({names}) AS VARCHAR) AS h, CAST(coalesce(sum(w), 0) AS VARCHAR) AS m0 "
        f'FROM "group weights" GROUP BY {names}'
    )
    assert isinstance(wanted, exp.Select)
    return wanted


def _differing(one: exp.Expr, other: exp.Expr) -> set[str]:
    """Return the clauses in which two SELECTs differ."""
    return {
        name for name in {**one.args, **other.args} if (one.args.get(name) or None) != (other.args.get(name) or None)
    }


def rounds_cost(selection: GaussianRounds, groups: int, *, replace: bool) -> RoundsCost:
    """Return what the rounds cost a unit of at most so many groups: of the noise and the least sums that are claimed.

    One of n groups that only this unit is in is shown with probability n·P(Z ≥ T − ⌊2²⁰/√n⌋) at most, where Z is the
    Gaussian rounded; so it is for either of two units where one is replaced.
    """
    times = 2 if replace else 1
    mu_squared, failure = Fraction(0), 0.0
    for one in selection.rounds:
        mu_squared += times * _WHOLE**2 / one.noise.sigma**2
        failure += times * max(
            n * _above(one.least - math.isqrt(_WHOLE**2 // n), one.noise.sigma) for n in range(1, groups + 1)
        )
    return RoundsCost(selection.epsilon, selection.delta, mu_squared, Fraction(failure))


def _above(t: int, sigma: Fraction) -> float:
    """Return the probability that the rounded Gaussian is t or more."""
    return math.erfc((t - 0.5) / (float(sigma) * math.sqrt(2))) / 2
