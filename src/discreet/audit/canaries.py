"""Training audited with canaries: records that were put in by coin, and guessed from the model that came out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.loss import PrivacyLoss
from discreet.audit.claim import Claim
from discreet.audit.evidence.intervals import between, threshold
from discreet.audit.finding import CONSISTENT, VIOLATED, Tradeoff
from discreet.audit.outputs.sampling import called
from discreet.audit.places import Floats
from discreet.audit.played import Guesses, epsilon_lower, errors, ladder, p_value, promises
from discreet.audit.reports import document, facts, fields_of, head, lines_of, number, picture, plain
from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, count
from discreet.privacy.guarantee import Approximate, Budget
from discreet.privacy.unit import Relation
from discreet.table import render_html

Promise: TypeAlias = Budget | Approximate | PrivacyLoss | Claim | Real

_STREAM = 0x63616E6172696573
"""Sets the coins' random numbers apart from those of anybody else with the same seed."""

_CAPTION = (
    "The claim forbids the red region to what is expected. The blue line is what the scores of these runs reached; it "
    "has no band, and the verdict rests on the guesses, not on it. The dashed line is guessing."
)
_ERRORS = "type I error: out called in", "type II error: in called out"

_HINT = "a list of records, an array with a record a row, or a tuple of arrays (X, y)"


@dataclass(frozen=True, slots=True)
class Canaries:
    """What canaries say about the training of a model.

    Guarantee:
        Training that keeps its claim is called "violated" with probability at most `error`, and `epsilon_lower` is
        above the true ε at the claimed δ with probability at most `error`.

    Attributes:
        name: what was audited.
        claim: what was claimed.
        relation: the neighbours that the coins make: "add-remove" (a canary is in or out) or "replace" (one of twins).
        verdict: "violated" or "consistent".
        error: the stated error probability.
        p_value: the chance of as clear a result under the claim, at most; "violated" means it is at most `error`.
        epsilon_lower: a lower bound on ε at the claimed δ.
        reachable: the largest `epsilon_lower` that was possible, had every guess been right: the audit's power.
        canaries: how many canaries there were.
        runs: how many models were trained.
        guesses: guesses of the clearest try; for many runs, the fresh models that were judged.
        right: how many of these were right.
        tried: the numbers of guesses that were tried, with the error divided among them; empty for many runs.
        alpha: of thresholds on the score, the share of canaries that were out and called in, rising.
        beta: the share of canaries that were in and called out.
        claimed: the least `beta` that the claim allows a test of level `alpha` of one canary.
    """

    name: str
    claim: Claim
    relation: str
    verdict: str
    error: float
    p_value: float
    epsilon_lower: float
    reachable: float
    canaries: int
    runs: int
    guesses: int
    right: int
    tried: tuple[Guesses, ...]
    alpha: Floats
    beta: Floats
    claimed: Floats

    @property
    def violated(self) -> bool:
        """Whether the claim was refuted."""
        return self.verdict == VIOLATED

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.verdict.upper()}", "", *lines_of(_rows(self))])

    def to_html(self) -> str:
        """Return the result as one HTML page without outside parts."""
        return document(self.name, _body(self))

    def to_json(self) -> dict[str, Any]:
        """Return the result in JSON's own types."""
        roc = ("alpha", "beta", "claimed")
        return {**fields_of(self, *roc), "roc": {k: plain(getattr(self, k)) for k in roc}}


def one_run(
    train: Callable[[Any], object],
    canaries: Any,
    score: Callable[[Any, Any], float],
    claimed: Promise,
    *,
    data: Any = None,
    relation: Relation | str = Relation.ADD_REMOVE,
    guesses: tuple[int, int] | Sequence[tuple[int, int]] | None = None,
    combine: Callable[[Any, list[Any]], Any] | None = None,
    error: float = 1e-3,
    seed: int | None = None,
    name: str | None = None,
) -> Canaries:
    """Audits training in one run: fair coins put canaries in, and the trained model's scores guess the coins.

    Guarantee:
        As `Canaries` states, for training that is deterministic or not and whatever the score is. Inclusion by coin
        makes add-remove neighbours; with `relation="replace"` each canary is a pair of twins, of which one is in.
        The numbers of guesses are fixed before the coins; several are tried with the error divided among them.

    Args:
        train: any callable: records in, a model out. It must not know the coins.
        canaries: a list of records, an array with a record a row, or a tuple of arrays of one length (X, y); for
            "replace" a list of pairs.
        score: score(model, canary), larger where the canary looks included: minus its loss, for example. For
            "replace" the twins' scores are subtracted.
        claimed: the claim for one record: a `Budget`, an ε, or a `PrivacyLoss`, of which the whole curve is used.
        data: the other records, of the same shape as the canaries; always in.
        relation: "add-remove" (a canary is in or out) or "replace" (the one twin or the other).
        guesses: (in, out): how many of the highest scores are guessed in, and how many of the lowest out; or several
            such pairs. By default all, half, a quarter, … of the canaries.
        combine: combine(data, included canaries) makes the records, where lists and arrays do not do.
        error: the chance of a false accusation.
        seed: of the coins, so that a run can be repeated; by default they are fresh.
        name: what the report calls it.

    Raises:
        InvalidParameter: no canaries, twins that are no pairs, scores that are NaN, training that raises, a claim for
            other neighbours, or more guesses than canaries.

    References:
        Steinke, Nasr, Jagielski 2023, Algorithm 1 and section 5, https://arxiv.org/abs/2305.08846; for curves the
        idea of Mahloujifar, Melis, Chaudhuri 2024, https://arxiv.org/abs/2410.22235; proofs: docs/proofs/canaries.md
    """
    claim, kind = _door(train, score, claimed, relation, error)
    coins = Coins.of(canaries, kind, data, combine)
    m = len(coins)
    tries = _tries(guesses, m)
    # Not the stream of default_rng(seed): a trainer that is seeded alike would have noise that knows the coins.
    rng = np.random.default_rng(None if seed is None else [_STREAM, seed])
    inside = rng.random(m) < 0.5
    model = trained(train, coins.records(inside))
    scores = finite_scores(coins, model, score)
    # Ties are broken by chance, not by the order of the canaries, and the coins take no part in it.
    order = rng.permutation(m)
    order = order[np.argsort(-scores[order], kind="stable")]
    points = promises(claim)
    rows = []
    for k_in, k_out in tries:
        right = int(inside[order[:k_in]].sum()) + int((~inside[order[m - k_out :]]).sum())
        p = p_value(m, k_in + k_out, right, points)
        rows.append(
            Guesses(k_in, k_out, right, p, epsilon_lower(m, k_in + k_out, right, claim.delta, error / len(tries)))
        )
    p = min(1.0, len(tries) * min(row.p_value for row in rows))
    best = min(rows, key=lambda row: (row.p_value, -row.epsilon_lower))
    alpha, beta = _roc(scores[inside], scores[~inside])
    return Canaries(
        name=name or called(train, "training"),
        claim=claim,
        relation=kind.value,
        verdict=VIOLATED if p <= error else CONSISTENT,
        error=error,
        p_value=p,
        epsilon_lower=max(row.epsilon_lower for row in rows),
        reachable=max(epsilon_lower(m, sum(t), sum(t), claim.delta, error / len(tries)) for t in tries),
        canaries=m,
        runs=1,
        guesses=best.guesses,
        right=best.right,
        tried=tuple(rows),
        alpha=alpha,
        beta=beta,
        claimed=errors(claim, alpha),
    )


def many_runs(
    train: Callable[[Any], object],
    canary: Any,
    score: Callable[[Any, Any], float],
    claimed: Promise,
    *,
    runs: int = 400,
    data: Any = None,
    relation: Relation | str = Relation.ADD_REMOVE,
    combine: Callable[[Any, list[Any]], Any] | None = None,
    error: float = 1e-3,
    name: str | None = None,
) -> Canaries:
    """Audits training with one canary and many runs: as many models with it as without, told apart by the score.

    Guarantee:
        As `Canaries` states. Half of the models choose a threshold and a side; the chances of that event are judged on
        the other half by Clopper–Pearson intervals of `error`/2 each.

    Args:
        train: any callable: records in, a model out; its runs are independent.
        canary: one record; for "replace" a pair of twins.
        score: score(model, canary), larger where it looks included.
        claimed: the claim for one record.
        runs: models to train, half of them with the canary (the first twin).
        data: the other records, always in: a list, or an array with a record a row.
        relation: "add-remove" (with it or without) or "replace" (one twin or the other).
        combine: combine(data, included canaries) makes the records, where lists and arrays do not do.
        error: the chance of a false accusation.
        name: what the report calls it.

    Raises:
        InvalidParameter: fewer than 8 runs, or as `one_run`.

    References: Jagielski, Ullman, Oprea 2020, Algorithm 2, https://arxiv.org/abs/2006.07709; docs/proofs/canaries.md
    """
    claim, kind = _door(train, score, claimed, relation, error)
    each = count("runs", runs, least=8) // 2
    coins = Coins.of([canary], kind, data, combine)
    scores = {}
    for there in (True, False):
        # records are made anew for each run: a trainer may sort or scale them in place
        models = (trained(train, coins.records(np.array([there]))) for _ in range(each))
        scores[there] = np.array([finite_scores(coins, model, score)[0] for model in models])
    half = each // 2
    event = threshold(scores[True][:half], scores[False][:half], claim.delta, error)
    n = each - half
    hits, false = event.hits(scores[event.inside][half:]), event.hits(scores[not event.inside][half:])
    found = between(hits, false, n, promises(claim), claim.delta, error)
    alpha, beta = _roc(scores[True][half:], scores[False][half:])
    return Canaries(
        name=name or called(train, "training"),
        claim=claim,
        relation=kind.value,
        verdict=VIOLATED if found.p_value <= error else CONSISTENT,
        error=error,
        p_value=found.p_value,
        epsilon_lower=found.epsilon_lower,
        reachable=between(n, 0, n, promises(claim), claim.delta, error).epsilon_lower,
        canaries=1,
        runs=2 * each,
        guesses=2 * n,
        right=hits + n - false,
        tried=(),
        alpha=alpha,
        beta=beta,
        claimed=errors(claim, alpha),
    )


def _door(
    train: object, score: object, claimed: Promise, relation: Relation | str, error: float
) -> tuple[Claim, Relation]:
    for what, given in (("train", train), ("score", score)):
        if not callable(given):
            raise InvalidParameter(f"{what} must be callable, not {type(given).__name__}.")
    if not 0 < error < 1:
        raise InvalidParameter(f"error must lie strictly between 0 and 1, not {error}.", hint="error=1e-3")
    claim, kind = Claim.of(claimed), Relation.parse(relation)
    if claim.loss is not None and claim.loss.relation not in (None, kind):
        raise InvalidParameter(
            f"the claim holds for {claim.loss.relation.value} neighbours, and the canaries make {kind.value} ones.",
            hint=f'relation="{claim.loss.relation.value}"',
        )
    return claim, kind


def _tries(guesses: Any, m: int) -> tuple[tuple[int, int], ...]:
    if guesses is None:
        return ladder(m)
    hint = "guesses=(50, 50), or several such pairs: all are fixed before the run"
    try:
        listed = [guesses] if len(guesses) == 2 and not any(hasattr(k, "__len__") for k in guesses) else guesses
        pairs = [(count("guesses", k_in, least=0), count("guesses", k_out, least=0)) for k_in, k_out in listed]
    except (TypeError, ValueError) as e:
        raise InvalidParameter("guesses must be (in, out) in whole numbers, or a list of such pairs.", hint=hint) from e
    for k_in, k_out in pairs:
        if not 1 <= k_in + k_out <= m:
            raise InvalidParameter(f"guesses must be 1 to {m}, one a canary at most, not {k_in + k_out}.", hint=hint)
    if not pairs:
        raise InvalidParameter("guesses are empty.", hint=hint)
    return tuple(dict.fromkeys(pairs))


def _roc(inside: Floats, outside: Floats) -> tuple[Floats, Floats]:
    """Shares of errors at every threshold, from "nobody is in" to "everybody is"."""
    cuts = np.concatenate([[math.inf], np.unique(np.concatenate([inside, outside]))[::-1]])
    beta = np.searchsorted(np.sort(inside), cuts) / max(1, len(inside))
    alpha = 1 - np.searchsorted(np.sort(outside), cuts) / max(1, len(outside))
    return np.asarray(alpha, dtype=np.float64), np.asarray(beta, dtype=np.float64)


def _body(found: Canaries) -> str:
    """Return a page's verdict, bound, errors of the scores, guesses."""
    line = Tradeoff(found.alpha, found.beta, found.beta, found.claimed)
    parts = [
        head(found.name, found.verdict),
        facts(_rows(found)),
        "<h2>Errors of the scores</h2>",
        picture(line, _CAPTION, _ERRORS),
    ]
    if found.tried:
        rows: list[list[str | None]] = [
            [f"{t.inside:,}", f"{t.outside:,}", f"{t.right:,}", f"{t.p_value:.3g}", number(t.epsilon_lower)]
            for t in found.tried
        ]
        table = render_html(["guessed in", "guessed out", "right", "p-value", "ε at least"], rows)
        parts += ["<h2>Guesses</h2>", table]
    return "".join(parts)


def _rows(found: Canaries) -> list[tuple[str, str]]:
    how = "one canary" if found.canaries == 1 else f"{found.canaries:,} canaries"
    models = "one run" if found.runs == 1 else f"{found.runs:,} runs"
    changed = "in or out" if found.relation == Relation.ADD_REMOVE.value else "one of two twins"
    return [
        ("claimed", found.claim.text),
        ("found", f"ε ≥ {number(found.epsilon_lower)} at δ = {number(found.claim.delta)}"),
        ("guesses", f"{found.right:,} of {found.guesses:,} right; p-value of the claim {found.p_value:.3g}"),
        ("error", f"false-positive rate: at most {number(found.error)}"),
        ("power", f"had every guess been right: ε ≥ {number(found.reachable)}"),
        ("work", f"{models} with {how}, each {changed} by a fair coin ({found.relation} neighbours)"),
    ]


@dataclass(frozen=True, slots=True)
class Coins:
    """Canaries, each of which one coin puts in or leaves out; or pairs of twins, of which it chooses one.

    Attributes:
        first: the canaries; the twins of heads.
        second: the twins of tails; empty for add-remove neighbours.
        data: the other records.
        columns: how many parallel arrays a record is spread over; 0 for one list or array.
        combine: makes records of data and the included canaries.
    """

    first: tuple[Any, ...]
    second: tuple[Any, ...]
    data: Any
    columns: int
    combine: Callable[[Any, list[Any]], Any] | None

    @classmethod
    def of(cls, canaries: Any, relation: Relation, data: Any, combine: Callable[[Any, list[Any]], Any] | None) -> Coins:
        """Return the canaries as records.

        Raises:
            InvalidParameter: there are none, they have no length, or twins that are no pairs.
        """
        if isinstance(canaries, str | bytes | Mapping) or hasattr(canaries, "columns"):  # their items are no records
            raise InvalidParameter(f"canaries must be records, not {type(canaries).__name__}.", hint=_HINT)
        columns = _columns(canaries) or (_columns(data) if relation is Relation.ADD_REMOVE else 0)
        if _columns(canaries):
            if len({len(c) for c in canaries}) > 1:
                raise InvalidParameter("canaries are arrays of several lengths.", hint=_HINT)
            records: tuple[Any, ...] = tuple(zip(*canaries, strict=True))
        else:
            try:
                records = tuple(canaries)
            except TypeError:
                raise InvalidParameter(
                    f"canaries must be records, not {type(canaries).__name__}.", hint=_HINT
                ) from None
        if not records:
            raise InvalidParameter("canaries are empty: nothing can be guessed.", hint="give 100 to 10,000 records")
        if relation is Relation.ADD_REMOVE:
            return cls(records, (), data, columns, combine)
        if not all(isinstance(pair, Sequence | np.ndarray) and len(pair) == 2 for pair in records):
            raise InvalidParameter(
                'canaries must be pairs of twins for relation="replace".', hint="canaries=list(zip(these, those))"
            )
        first, second = tuple(pair[0] for pair in records), tuple(pair[1] for pair in records)
        return cls(first, second, data, _columns(data), combine)

    def __len__(self) -> int:
        return len(self.first)

    def records(self, inside: NDArray[np.bool_]) -> Any:
        """Return the data and the canaries that the coins chose, in the canaries' order.

        Raises:
            InvalidParameter: records that do not fit the data.
        """
        if self.second:
            chosen = [a if heads else b for a, b, heads in zip(self.first, self.second, inside, strict=True)]
        else:
            chosen = [a for a, heads in zip(self.first, inside, strict=True) if heads]
        if self.combine is not None:
            return self.combine(self.data, chosen)
        try:
            return self._joined(chosen)
        except (TypeError, ValueError) as e:
            raise InvalidParameter(
                f"the canaries and the data do not fit together: {e}", hint="give combine=lambda data, chosen: …"
            ) from e

    def _joined(self, chosen: list[Any]) -> Any:
        if self.columns:
            data = self.data if self.data is not None else (None,) * self.columns
            places = range(self.columns)
            return tuple(
                _stacked(d, [record[i] for record in chosen], self.first[0][i])
                for i, d in zip(places, data, strict=True)
            )
        if isinstance(self.data, np.ndarray) or (
            self.data is None and isinstance(self.first[0], np.ndarray | np.generic)
        ):
            return _stacked(self.data, chosen, self.first[0])
        return [*([] if self.data is None else self.data), *chosen]


def trained(train: Callable[[Any], object], records: Any) -> object:
    """Return the model.

    Raises:
        InvalidParameter: training raised.
    """
    try:
        return train(records)
    except Exception as e:
        raise InvalidParameter(
            f"train raised {type(e).__name__}: {e}", hint="it is called with the data and some of the canaries"
        ) from e


def finite_scores(coins: Coins, model: object, score: Callable[[Any, Any], float]) -> Floats:
    """Return the score of each canary; of twins the difference.

    Raises:
        InvalidParameter: scoring raised, or a score that is no number or NaN.
    """
    first = _scores(model, coins.first, score)
    if not coins.second:
        return first
    second = _scores(model, coins.second, score)
    with np.errstate(invalid="ignore"):
        # two infinite scores of one sign tell nothing apart
        return np.where(first == second, 0.0, first - second)


def _scores(model: object, canaries: Sequence[Any], score: Callable[[Any, Any], float]) -> Floats:
    found = np.empty(len(canaries))
    for i, canary in enumerate(canaries):
        try:
            found[i] = float(np.asarray(score(model, canary)).item())
        except Exception as e:
            raise InvalidParameter(
                f"score raised {type(e).__name__} at canary {i}: {e}", hint="score(model, canary) is one number"
            ) from e
    if bool(np.isnan(found).any()):
        raise InvalidParameter(
            f"score is NaN for {int(np.isnan(found).sum())} of {len(found)} canaries.",
            hint="return -math.inf where nothing can be said",
        )
    return found


def _stacked(data: Any, chosen: list[Any], like: Any) -> NDArray[Any]:
    new = np.asarray(chosen) if chosen else np.empty((0, *np.shape(like)), dtype=np.asarray(like).dtype)
    return new if data is None else np.concatenate([np.asarray(data), new])


def _columns(records: Any) -> int:
    parallel = isinstance(records, tuple) and len(records) > 1 and all(isinstance(c, np.ndarray) for c in records)
    return len(records) if parallel else 0
