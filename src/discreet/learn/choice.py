"""Private model choice: the best of several candidates, of a number of runs that is drawn first and never shown.

Guarantee:
    Each run takes a random candidate, fits it to a random four fifths of the rows, and measures it on the others. So a
    person counts in one of both. K runs are made, of a geometric law of mean 1/γ, and the best of them leaves. Where a
    run is ε-DP this is 3ε-DP (Liu, Talwar 2019, Theorem 3.1). Where it is ρ-zCDP it is of Rényi divergence
    λρ + 2(λ' − 1)ρ + 2·ln(1/γ)/λ' + ln(1/γ)/(λ − 1) at order λ, for any λ' ≥ 1 (Papernot, Steinke 2022, Theorem 2, with
    η = 1). docs/proofs/model-choice.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from discreet.accounting.convert import gdp_epsilon
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InternalError, InvalidParameter
from discreet.learn.estimator import PrivateEstimator, listed_rows
from discreet.learn.evaluation import evaluate, is_own
from discreet.learn.features import cell_by_cell
from discreet.noise.bernoulli import bernoulli
from discreet.noise.entropy import SystemEntropy, words64
from discreet.noise.uniform import below_vector
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.exact import Real, count, positive, probability
from discreet.privacy.unit import Relation

TESTED = 5
"""One row in so many measures a run, and the others are what it is fitted to."""

_SLACK = 1 - 1e-9


@dataclass(frozen=True)
class ChosenModel:
    """The best of all runs.

    Attributes:
        model: fitted to four fifths of the rows.
        candidate: which of the candidates it is of.
        score: its noisy accuracy; of a regressor its mean error, noisy too, below 0.
        loss: what all of this cost.
    """

    model: PrivateEstimator
    candidate: int
    score: float
    loss: PrivacyLoss


def choose(
    candidates: Sequence[PrivateEstimator], X: Any, y: Any, *, epsilon: Real, delta: Real = 0, runs: int | None = None
) -> ChosenModel:
    """Return the best of several models by private accuracy, at about three times the ε of one run, however many.

    Args:
        candidates: unfitted classifiers or regressors of discreet.learn, without ε and δ, which are chosen here.
        X: an array or a frame, one row a person.
        y: a label or a number a row.
        epsilon: the ε to be spent in all.
        delta: the δ to be spent in all; with 0 all candidates are fitted with δ = 0.
        runs: how many runs there are on average: 4 for each candidate by default.

    Guarantee:
        (ε, δ)-DP for each row, of everything that is returned; how long it takes tells of the number of runs, which is
        independent of the data.

    >>> from discreet.learn import LogisticRegression
    >>> X = np.array([[-1.0], [1.0]] * 500)
    >>> given = {"bounds": (-2, 2), "classes": [0, 1], "solver": "objective"}
    >>> models = [LogisticRegression(basis=basis, **given) for basis in ("linear", "gam")]
    >>> choose(models, X, X[:, 0] > 0, epsilon=6).loss.epsilon(delta=0)
    6.0

    Raises:
        InvalidParameter: candidates that cannot be compared, or have an ε of their own.
    """
    e, d = positive("epsilon", epsilon), probability("delta", delta)
    relation = _checked(candidates)
    most = count("runs", 4 * len(candidates) if runs is None else runs)
    rho = _per_run(e, d, most) if d else None
    # a run at (ε₀, δ) has μ² ≤ 2ρ, since its noise is calibrated to no more
    one = e / 3 if rho is None else Fraction(gdp_epsilon(2 * Fraction(rho), d) * (1 - 1e-6))
    rng, best = SystemEntropy(), None
    rows = X if hasattr(X, "iloc") else np.asarray(listed_rows(X))
    told = cell_by_cell(y).reshape(-1)
    if len(rows) != len(told):
        raise InvalidParameter("X and y have different lengths.")
    public = all(isinstance(own := getattr(model, "classes", None), str) and own == "public" for model in candidates)
    occurring = np.unique(np.asarray(told.tolist())).tolist() if public else None
    while best is None or not bernoulli(Fraction(1, most), rng):
        place = int(below_vector(len(candidates), 1, rng)[0])
        model = clone(candidates[place]).set_params(epsilon=one, delta=d)
        if public:
            model.set_params(classes=occurring)  # which of them are in the random part is a secret
        tested = words64(rng, len(told)) % TESTED == 0
        model.fit(_taken(rows, ~tested), told[~tested])
        found = evaluate(model, _taken(rows, tested), told[tested], epsilon=one, delta=d, relation=relation)
        for loss in (model.loss_, found.loss):
            _hold(loss, one, rho)
        score = found.accuracy.value if is_classifier(model) else -found.mae.value
        if best is None or score > best[0]:
            best = score, place, model
    loss = PrivacyLoss(Composed([ApproximateEvent(e, d)]))
    best[2].loss_ = loss  # that of its own fit alone would say too little
    return ChosenModel(best[2], best[1], best[0], loss)


def _checked(candidates: Sequence[Any]) -> Relation:
    """Return who are neighbours, of candidates that may be compared."""
    if not candidates or not all(is_own(model) for model in candidates):
        raise InvalidParameter(
            "choose is for classifiers and regressors of discreet.learn.", hint="choose([LogisticRegression(…), …], …)"
        )
    if any(model.epsilon is not None or model.delta is not None for model in candidates):
        raise InvalidParameter("choose sets the ε and δ of its candidates.", hint="leave their epsilon= and delta= out")
    if len({is_classifier(model) for model in candidates}) > 1:
        raise InvalidParameter("a classifier is not compared with a regressor.")
    if len({str(getattr(model, "classes", None)) for model in candidates}) > 1:
        raise InvalidParameter("candidates have the same classes.")
    if len({str(getattr(model, "target", None)) for model in candidates}) > 1:
        raise InvalidParameter("candidates have the same target.")
    relations = {Relation.parse(model.relation) for model in candidates}
    if relations != {Relation.ADD_REMOVE}:
        raise InvalidParameter("choose is for add-remove neighbours.", hint="relation='add-remove'")
    return Relation.ADD_REMOVE


def _taken(rows: Any, some: Any) -> Any:
    return rows.iloc[np.flatnonzero(some)] if hasattr(rows, "iloc") else rows[some]


def cost(rho: float, delta: float, runs: int) -> float:
    """Return the ε at δ of the best of a geometric number of runs, each of which is ρ-zCDP."""
    log = math.log(runs)
    inner = max(math.sqrt(log / rho), 1.0)  # the best λ' for 2(λ' − 1)ρ + 2·ln(1/γ)/λ'
    orders = 1 + np.exp(np.linspace(-6, 12, 4000))
    divergence = orders * rho + 2 * (inner - 1) * rho + 2 * log / inner + log / (orders - 1)
    # Canonne, Kamath, Steinke 2020, Proposition 12
    found = divergence + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return float(found.min())


def _per_run(epsilon: Fraction, delta: Fraction, runs: int) -> float:
    """Return the ρ of a run, so that all cost (ε, δ)."""
    low, high = 0.0, float(epsilon)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if cost(middle, float(delta), runs) <= float(epsilon) * _SLACK else (low, middle)
    if not low:
        raise InvalidParameter("ε is too small for so many runs.", hint="a larger epsilon, or fewer runs=")
    return low * _SLACK


def _hold(loss: PrivacyLoss, epsilon: Fraction, rho: float | None) -> None:
    """Refuse a run whose noise is not what the theorem is about: this follows from its plan, and not from data."""
    events = [*loss.events]
    if rho is None:
        if any(event.pure is None or event.failure for event, _ in events):
            raise InvalidParameter("a candidate needs δ.", hint="delta=1e-6, or solver='objective'")
        held = sum((n * (event.pure or 0) for event, n in events), Fraction(0)) <= epsilon
    else:
        if any(event.mu_squared is None or event.failure for event, _ in events):
            raise InvalidParameter(
                "with δ candidates have Gaussian noise alone.", hint="solver='gradient', or delta=0 for all"
            )
        held = float(sum((n * (event.mu_squared or 0) for event, n in events), Fraction(0))) <= 2 * rho
    if not held:
        raise InternalError("A run costs more than was planned.")
