"""Questions that the planner's rules apply to, and others: a fixture for each rule, with the noise before and after.

    python -m tests.plan.rules.cases      # writes the noise of every fixture anew

A fixture has tables by name below, what is asked of them (a question, or a batch by names), and the terms. Numbers are
errors at 95 %; of quantiles, those of the rank of an interval's ends, in rows. `before` is what the rules before it in
the list leave; for totals it is each grouping set asked by itself with its even part of ε and δ (`apart`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.errors import InvalidParameter
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.mechanisms.summed import SummedNoise
from discreet.plan.cost import PlanTerms
from discreet.plan.grouping_sets.split_budget import agreements
from discreet.plan.nodes.node import Node
from discreet.plan.plan import Plan, alone
from discreet.plan.planner import make_query
from discreet.plan.quantile_tree.chosen import tree_error
from discreet.plan.query import Query, kind_of
from discreet.plan.rules import RULES
from discreet.plan.rules.common import measured_apart
from discreet.plan.rules.rule import Rule
from discreet.privacy.unit import PrivacyUnit, Relation

FOLDER = Path(__file__).parent
COLUMNS = {"uid": Type.INT, "x": Type.INT, "v": Type.INT, "region": Type.TEXT, "day": Type.INT, "code": Type.INT}
FACTS: dict[str, Fact] = {
    "x": Range(0, 100, integer=True),
    "v": Range(0, 10, integer=True),
    "region": Values("a", "b"),
    "day": Values(*range(20)),
}
UNITS = {
    "rows": PrivacyUnit.row(),
    "people": PrivacyUnit("uid", max_groups=2, max_rows=3),
    "lone": PrivacyUnit("uid", max_groups=1, max_rows=1),
}


@dataclass(frozen=True)
class Case:
    """One question, or a batch, that a rule is tried on."""

    table: str
    ask: str | Mapping[str, str]
    terms: Mapping[str, str]
    before: Mapping[str, float]
    after: Mapping[str, float]
    apart: Mapping[str, str]

    @property
    def schema(self) -> TableSchema:
        """The table that is asked."""
        return TableSchema("t", dict(COLUMNS), dict(FACTS), UNITS[self.table], Relation.ADD_REMOVE)

    @property
    def plan_terms(self) -> PlanTerms:
        """What may be spent."""
        t = self.terms
        return PlanTerms("p", None, Fraction(t["epsilon"]), Fraction(t.get("delta", "0")), kind_of(t.get("noise")))

    def query(self, sql: str, parts: int, rules: list[Rule]) -> Query:
        """A question planned with so large a part of the terms."""
        t = self.plan_terms
        return make_query(
            sql,
            [self.schema],
            population="p",
            version=None,
            epsilon=t.epsilon / parts,
            delta=t.delta / parts,
            noise=self.terms.get("noise"),
            rules=rules,
        )

    def plan(self, rule: Rule) -> Plan:
        """The plan that a rule is given: that of the rules before it."""
        first = [*RULES[: RULES.index(rule)]]
        if isinstance(self.ask, str):
            return alone(self.query(self.ask, 1, first), "p")
        rules = [r for r in RULES if r.in_batches]
        each = {name: self.query(sql, len(self.ask), rules) for name, sql in self.ask.items()}
        return measured_apart(each, self.plan_terms)

    def reference(self, plan: Plan) -> dict[str, float]:
        """The noise that no number may have more of than; `plan` is the one before."""
        if not self.apart:
            return errors(plan)
        each = {kept: self.query(sql, len(self.apart), []) for kept, sql in self.apart.items()}
        return {f"{c} {kept}": error for kept, q in each.items() for c, error in _errors("", q)}


def cases(rule: Rule, kind: str) -> list[Case]:
    """The cases of a rule: those that it `applies` to, or `not`."""
    found = json.loads((FOLDER / f"{rule.name}.json").read_text(encoding="utf-8"))[kind]
    return [Case(**{"before": {}, "after": {}, "apart": {}, **case}) for case in found]


def errors(plan: Plan) -> dict[str, float]:
    """How far noise moves each number of each answer; of totals, on each level."""
    return {key: value for name, output in plan.outputs.items() for key, value in _errors(name, output.query)}


def _errors(name: str, query: Query) -> Iterator[tuple[str, float]]:
    sets = query.question.outer.sets
    for column, expr in query.question.outer.columns:
        label = f"{name} {column}".strip()
        if sets is not None:
            yield from ((f"{label} {kept}", error) for kept, error in _levels(query, column))
            continue
        try:
            yield label, _rank(query, expr) if expr.shares else query.error(column, assuming={"rows": 1000})
        except InvalidParameter:  # a key
            continue


def _rank(query: Query, expr: Node) -> float:
    """How many rows the ends of a quantile's interval are off by."""
    read = zip(query.question.trees, query.allocation.trees, strict=True)
    ((shape, law),) = [(tree_read.shape, law) for tree_read, law in read if tree_read.shape == expr.source]
    (p,) = expr.shares
    steps = shape.steps(is_row=query.question.table.unit.is_row)
    if isinstance(law, ExponentialQuantile):
        return law.reach() / steps
    return tree_error(shape, p, law, 1 - Fraction(1, 20) / shape.depth) / steps


def _levels(query: Query, column: str) -> Iterator[tuple[str, float]]:
    """The error of a column that is one noisy number, in the rows of each grouping set."""
    affine, q = query.column(column).affine(), query.question
    assert q.outer.sets is not None and q.keys.lists is not None
    if affine is None or not affine[1]:
        return
    ((place, factor),) = affine[1].items()
    for kept in q.outer.sets:
        parts = math.prod(len(v) for i, v in enumerate(q.keys.lists) if i not in kept)
        agreed = agreements(q, query.allocation)
        noise = agreed[place].noise(kept) if agreed else SummedNoise(query.allocation.noises[place], parts)
        yield str([*kept]), float(abs(factor) * noise.quantile(Fraction(19, 20)))


def _write() -> None:
    for rule in RULES:
        path = FOLDER / f"{rule.name}.json"
        found = json.loads(path.read_text(encoding="utf-8"))
        for case, written in zip(cases(rule, "applies"), found["applies"], strict=True):
            before = case.plan(rule)
            after = rule.apply(before, case.plan_terms)
            assert after is not None, case
            written["before"], written["after"] = case.reference(before), errors(after)
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
