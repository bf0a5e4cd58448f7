"""The decided plan: what is measured, who pays what for it, and the results. A value; nothing has been touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from html import escape
from typing import Protocol

from discreet.accounting.filter import Charge
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.plan.assumed import Assumed
from discreet.plan.auto_bounds.queries import CapsQuery, Choice, RangesQuery
from discreet.plan.decided import Drawing
from discreet.plan.explain import citations, explain
from discreet.plan.flows.network import Flow, FlowPayer, Network
from discreet.plan.needs import compared
from discreet.plan.outer import Foreseen, OuterQuery
from discreet.plan.query import Query, claim_in_stages, claim_of_all, confidence_level
from discreet.privacy.event import Composed
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import Approximate, Budget, words
from discreet.query.ends import EndedQuery
from discreet.query.lineage import Follows, Traced
from discreet.verify.claim import Look, PlanClaim
from discreet.verify.flows import FlowClaim
from discreet.verify.parts import part_reasons


@dataclass(frozen=True, slots=True)
class Place:
    """Where the columns of a result are: which measurement, and which of its columns and trees."""

    measurement: int
    columns: tuple[int, ...]
    trees: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanOutput:
    """One result of a plan.

    Attributes:
        query: what is asked, with the noise of its own columns.
        place: where these are measured; None where the plan's one measurement is all of it.
        alone: what is asked, planned alone with an even part of ε and δ, where several queries share them.
    """

    query: Query
    place: Place | None = None
    alone: Query | None = None

    @property
    def is_apart(self) -> bool:
        """Whether it is a query of a batch that shares nothing with the others."""
        return self.place is not None and self.alone is None


@dataclass(frozen=True, slots=True)
class Payer:
    """A population that pays for a plan: what running it reveals of one of its units, and at which price."""

    population: str
    events: Composed
    guarantee: Approximate

    @property
    def charge(self) -> Charge:
        """What its account is asked to pay."""
        return Charge(self.events, self.guarantee)

    @property
    def cost(self) -> PrivacyLoss:
        """What running the plan costs it."""
        return PrivacyLoss(self.events)


class Staging(Protocol):
    """Choice of bounds before a plan's queries are decided (`auto_bounds/staged.py`)."""

    @property
    def of_caps(self) -> CapsQuery | None: ...
    @property
    def of_values(self) -> RangesQuery | None: ...
    @property
    def last(self) -> Query: ...
    @property
    def rehearsed(self) -> tuple[Query, ...]: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    def settled(self, plan: Plan, choice: Choice) -> Plan: ...
    def refuse_costlier(self, query: Query) -> None: ...
    def explain(self, plan: Plan) -> str: ...
    def described(self, plan: Plan) -> str: ...


class Flowing(Protocol):
    """Flows of numbers between two populations that pay for a plan (`flows/plan.py`)."""

    @property
    def networks(self) -> tuple[Network, ...]: ...
    @property
    def parties(self) -> tuple[FlowPayer, FlowPayer]: ...
    @property
    def flows(self) -> tuple[Flow, ...]: ...
    def notes(self, query: Query) -> tuple[str, ...]: ...
    def claim(self, query: Query) -> FlowClaim: ...
    def explain(self, plan: Plan) -> str: ...
    def citations(self, plan: Plan) -> list[str]: ...


@dataclass(frozen=True)  # without slots: its claim is built once
class Plan:
    """Queries that have been decided: free to look at, and nothing has been read or charged.

    Guarantee:
        The noisy numbers of all `measurements` together are (ε, δ)-DP for the guarantee of each payer, under the
        relation of its own account: their noise comes from one allocation, whose events are composed in it.

    Attributes:
        identity: the same for the same measurements with the same parameters, whatever is made of them.
        measurements: what the database is asked, each once; where a first stage chooses something, as it is asked with
            the largest choice.
        outputs: each result by its name; "" where one query was asked alone.
        payers: who pays: one population, or both where rows belong to two.
        looks: what is looked at first, where something is chosen privately.
        stages: how it is chosen; None when it has been.
        flows: how numbers flow between two populations, where rows belong to both.
        parts: what a recipe draws of people's rows by code of its own.
        recipe: its name; "" of queries in SQL.
        draws: the events of a run that stays open, which its payer is charged as one; None of others.
        outer: what is made of the outputs, its parts, where SQL over results was asked; post-processing.
        left: what the account that planned it would have left; None where it would refuse, or no account was asked.
        outlook: what the accounts would say to it now, in a sentence.
    """

    identity: str
    measurements: tuple[Query, ...]
    outputs: Mapping[str, PlanOutput]
    payers: tuple[Payer, ...]
    looks: tuple[Look, ...] = ()
    stages: Staging | None = None
    flows: Flowing | None = None
    parts: tuple[Drawing, ...] = ()
    recipe: str = ""
    draws: Composed | None = None
    outer: OuterQuery | None = None
    left: Budget | None = None
    outlook: str = ""

    @cached_property
    def query(self) -> Query:
        """The one query.

        Raises:
            InvalidParameter: there are several.
        """
        if self.outer is not None:
            raise InvalidParameter(
                "this plan is of SQL over results, and no one query.", hint="look at each measured part, in .outputs"
            )
        if len(self.outputs) == 1:
            (output,) = self.outputs.values()
            return output.query
        raise InvalidParameter("this plan is of several queries.", hint="look at .outputs, by their names")

    @property
    def charges(self) -> dict[str, Charge]:
        """What each population's account is asked to pay."""
        return {p.population: p.charge for p in self.payers}

    @property
    def costs(self) -> dict[str, PrivacyLoss]:
        """What running it will cost each population."""
        return {p.population: p.cost for p in self.payers}

    @property
    def charge(self) -> Charge:
        """What the ledger is asked to pay.

        Raises:
            InvalidParameter: two populations pay, each something else.
        """
        return self._payer("charges").charge

    @property
    def cost(self) -> PrivacyLoss:
        """What running it will cost. Raises as `charge`."""
        return self._payer("costs").cost

    def _payer(self, each: str) -> Payer:
        if len(self.payers) == 1:
            return self.payers[0]
        raise InvalidParameter(
            "a query to two populations costs each of them something else.",
            hint=f"look at .{each}, by the names of the populations",
        )

    @property
    def epsilon(self) -> Fraction:
        """The ε that it costs; of two populations, that of the one which pays more."""
        return max(p.guarantee.epsilon for p in self.payers)

    @property
    def price(self) -> str:
        """What is charged for it, in words."""
        if len(self.payers) > 1:
            each = [(words(p.guarantee.epsilon, p.guarantee.delta), p.population) for p in self.payers]
            return ", ".join(f"{price} of {name!r}" for price, name in each)
        g, n = self.payers[0].guarantee, len(self.outputs)
        together = "measured parts of the query" if self.outer is not None else "queries of a batch"
        of = f" for the {n} {together}" if n > 1 else ""
        return f"{words(g.epsilon, g.delta)}{of}"

    @cached_property
    def claim(self) -> PlanClaim | FlowClaim:
        """What is charged for, as the second derivation takes it."""
        if self.flows is not None:
            return self.flows.claim(self.query)
        events, guarantee = self.payers[0].events, self.payers[0].guarantee
        if self.looks:
            return claim_in_stages(self.looks, self.measurements[0], events, guarantee)
        claim = claim_of_all(self.measurements, self.draws or events, guarantee, self.parts, self.recipe)
        if self.draws is None:
            return claim
        return replace(claim, charged=replace(claim.charged, events=events), open=True)

    @property
    def claim_of_one(self) -> PlanClaim:
        """The claim of a plan that one population pays for."""
        claim = self.claim
        assert isinstance(claim, PlanClaim)
        return claim

    @property
    def statements(self) -> tuple[str, ...]:
        """Every text that the database will run; before something is chosen, those that choose it."""
        if self.stages is not None:
            return tuple(look.sql for look in self.looks)
        texts = tuple(text for q in self.measurements for text in q.statements)
        return (*texts, *dict.fromkeys(part.rows.sql for part in self.parts))

    @property
    def rehearsals(self) -> tuple[tuple[str, bool], ...]:
        """Every text that is tried on empty tables before the charge, and whether it has the `$secret` parameter."""
        if self.flows is not None:
            return ((self.query.sql, False),)
        first = () if self.stages is None else tuple((look.sql, False) for look in self.looks)
        queries = self.measurements if self.stages is None else self.stages.rehearsed
        rows = dict.fromkeys((part.rows.sql, part.rows.is_keyed) for part in self.parts)
        return (*first, *((text, q.is_keyed(text)) for q in queries for text in q.statements), *rows)

    @property
    def sql(self) -> str:
        """What the database will run."""
        return ";\n\n".join(self.statements)

    @property
    def columns(self) -> list[str]:
        """The names of the result's columns."""
        return self.query.columns if self.outer is None else [*self.outer.columns]

    @cached_property
    def traced(self) -> Traced:
        """How the columns of its outer query follow from noisy numbers."""
        assert self.outer is not None
        return self.outer.traced({name: output.query for name, output in self.outputs.items()})

    @property
    def is_redrawable(self) -> bool:
        """Whether all that its parts read are integers with noise of their own, so that it can be drawn again."""
        questions = [o.query.question for o in self.outputs.values()]
        return all(not q.trees and q.outer.sets is None for q in questions)

    @cached_property
    def follows(self) -> dict[str, Follows]:
        """The way in which each outer column follows from noisy numbers, unknown where no interval follows from it."""
        lineage = self.traced.lineage
        known = {Follows.PUBLIC} if lineage.is_chosen else {Follows.PUBLIC, Follows.LINEAR, Follows.ONE}
        known |= {Follows.SUM, Follows.SEVERAL} if not lineage.is_chosen and self.is_redrawable else set()
        public = [True] * len(self.columns)
        if lineage.is_chosen and self.ended is not None:  # a number of rows that noise chose
            public = [i in self.ended.public for i in range(len(self.columns))]
        return {
            c.name: c.follows if c.follows in known and (c.follows or is_public) else Follows.UNKNOWN
            for c, is_public in zip(lineage.columns, public, strict=True)
        }

    def has_interval(self, column: str) -> bool:
        """Tell whether cells of an output column have intervals."""
        if self.outer is None:
            return self.query.has_interval(column)
        return Follows.PUBLIC < self.follows[column] < Follows.UNKNOWN or column in self.banded

    @cached_property
    def ended(self) -> EndedQuery | None:
        """Its outer query with the ends of its numbers, while all noisy numbers of the parts lie in intervals."""
        assert self.outer is not None
        return self.outer.ended({name: output.query for name, output in self.outputs.items()})

    @cached_property
    def banded(self) -> dict[str, int]:
        """The outer columns whose intervals hold at once for all that noise might have chosen: where their low ends
        are, in the rows of `ended`.
        """
        places = {} if self.ended is None else self.ended.places
        return {self.columns[i]: at for i, at in places.items() if self.follows[self.columns[i]] is Follows.UNKNOWN}

    @property
    def notes(self) -> tuple[str, ...]:
        """What its numbers leave out, in sentences, as far as it is known before the data."""
        if self.outer is not None:
            return tuple(dict.fromkeys([*self.outer.notes, *(note for n in self.outputs for note in self.notes_of(n))]))
        return self.notes_of(*self.outputs) if len(self.outputs) == 1 else ()

    def notes_of(self, name: str) -> tuple[str, ...]:
        """Return the same of one of its results, by name."""
        query = self.outputs[name].query
        if self.flows is not None:
            return self.flows.notes(query)
        return query.notes if self.stages is None else self.stages.notes

    def error(
        self, column: str, confidence: Real = Fraction(19, 20), *, assuming: Mapping[str, Real] | None = None
    ) -> float:
        """Return the half-width t such that the noise moves the column by at most t with probability `confidence`.

        For counts, sums, what is affine in them and each count of a histogram it is known before the data. A mean's
        depends on how many rows it is over: give a public guess, `assuming={"rows": 10_000}` (the key is any name).

        Raises:
            InvalidParameter: a column whose error depends on the data, without an assumption that settles it, or on
                what a first stage chooses.
        """
        if self.outer is not None:
            return self.foreseen(assuming).error(column, confidence_level(confidence))
        return self._settled.error(column, confidence, assuming=assuming)

    def foreseen(self, assuming: Mapping[str, Real] | None) -> Foreseen:
        """Return the errors of its columns before the data, at public guesses.

        Raises:
            InvalidParameter: guesses that are no numbers.
        """
        if self.outer is None:
            return Assumed.of(self._settled, assuming)
        assert self.outer.foresee is not None  # it was tried
        return self.outer.foresee(self, assuming)

    def error_or_none(
        self, column: str, confidence: Real = Fraction(19, 20), *, assuming: Mapping[str, Real] | None = None
    ) -> float | None:
        """Return the same, or None where it depends on more than what is guessed."""
        try:
            return self.error(column, confidence, assuming=assuming)
        except InvalidParameter:
            return None

    def is_noisy(self, column: str) -> bool:
        """Tell whether an output column has numbers that noise moves, as far as that is known."""
        if self.outer is not None:
            return self.follows[column] is not Follows.PUBLIC
        return self.query.has_interval(column)

    def rank_error(self, column: str, confidence: Real = Fraction(19, 20)) -> float:
        """How many rows the rank of a quantile is off by, or less, with probability `confidence`, where values lie
        evenly about it: from the noise, before the data. `explain` has a bound whatever the data.

        Raises:
            InvalidParameter: a column that is no quantile of a share strictly between 0 and 1.
        """
        return self._settled.rank_error(column, confidence)

    @property
    def _settled(self) -> Query:
        if self.stages is not None:
            raise InvalidParameter(
                "the error follows from what a first stage chooses privately.",
                hint="the release has it; or declare caps and bounds, and leave bounds= out",
            )
        return self.query

    def explain(self, name: str | None = None) -> str:
        """Return the derivation in the textbook's terms, with the numbers of this query, or of the one named."""
        if not self.outputs:
            shown = f"It costs {self.price}. What is drawn of people's rows, with what bounds one unit's part (norms):"
            return "\n".join([shown, *part_reasons(self.claim_of_one)])
        if self.outer is not None and name is None:
            parts = [f"{part}, measured:\n{self.explain(part)}" for part in self.outputs]
            results = "".join(f"{line}\n" for line in self.outer.results)
            return "\n\n".join([*parts, f"Of the noisy tables, without further cost:\n{results}{self.outer.sql}"])
        output = next(iter(self.outputs.values())) if name is None else self.outputs[name]
        if self.flows is not None:
            return self.flows.explain(self)
        if self.stages is not None:
            return self.stages.explain(self)
        told = explain(output.query, self.outlook)
        if output.query.chosen is not None:
            return output.query.chosen.explain(told)
        if output.alone is None:
            return told
        return f"{told}\n{compared(output.query, output.alone, len(self.outputs))}"

    def citations(self, name: str) -> list[str]:
        """Return the works on which the guarantee of a result rests."""
        if self.flows is not None:
            return self.flows.citations(self)
        return citations(self.outputs[name].query)

    def __str__(self) -> str:
        if self.stages is not None:
            return self.stages.described(self)
        lines = [f"A plan that costs {self.price}"]
        lines += part_reasons(self.claim_of_one) if self.parts else []
        for name, output in self.outputs.items():
            lines += [f" {name}:"] if name else []
            lines += [*output.query.errors, *self.notes_of(name)]
        if self.outer is not None:
            known = [(n, self.error_or_none(n)) for n in self.columns if self.is_noisy(n)]
            errors = [f"  {n}: ± {width:,.6g} at 95 %".replace("inf", "∞") for n, width in known if width is not None]
            lines += [*([" the result:", *errors] if errors else []), *self.outer.notes]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def alone(query: Query, population: str) -> Plan:
    """Return the plan of one query that one population pays for."""
    a = query.allocation
    return Plan(query.identity, (query,), {"": PlanOutput(query)}, (Payer(population, a.events, a.guarantee),))
