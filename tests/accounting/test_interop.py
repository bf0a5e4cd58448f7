"""Truth comes from dp_accounting 0.6.0: texts that its objects wrote, and ε that its PLD accountant answered."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass
from fractions import Fraction as F
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import accounting
from discreet.accounting import PrivacyLoss
from discreet.accounting.interop import (
    from_dp_accounting,
    from_opacus,
    from_prv,
    read_history,
    to_dp_accounting,
    to_dp_accounting_json,
    to_opacus,
)
from discreet.errors import InvalidParameter, MissingExtra, SourceError
from discreet.privacy.event import Composed

NOTHING = PrivacyLoss(Composed())

# `json.dumps(event.to_named_tuple())` of dp_accounting 0.6.0.
WRITTEN = """["dp_accounting.dp_event", "ComposedDpEvent", [
    ["dp_accounting.dp_event", "SelfComposedDpEvent", ["dp_accounting.dp_event", "PoissonSampledDpEvent",
        0.01, ["dp_accounting.dp_event", "GaussianDpEvent", 1.1]], 1000],
    ["dp_accounting.dp_event", "LaplaceDpEvent", 20.0], ["dp_accounting.dp_event", "NoOpDpEvent"],
    ["dp_accounting.dp_event", "DiscreteLaplaceDpEvent", 0.05, 2],
    ["dp_accounting.dp_event", "ZCDpEvent", 0.001, 0.0]]]"""


def event(name: str, **values: object) -> dict[str, object]:
    return {"module_name": "dp_accounting.dp_event", "class_name": f"{name}DpEvent", **values}


def live(name: str, **values: object) -> Any:
    """An object that looks like one of dp_accounting."""
    return type(f"{name}DpEvent", (), values)()


def gaussian(z: object = 2.0) -> dict[str, object]:
    return event("Gaussian", noise_multiplier=z)


def many(inner: object, n: object) -> dict[str, object]:
    return event("SelfComposed", event=inner, count=n)


def test_what_dp_accounting_writes_is_read_exactly() -> None:
    assert from_dp_accounting(WRITTEN) == (
        accounting.gaussian(F(11, 10)).poisson(F(1, 100)) * 1000
        + accounting.laplace(20)
        + accounting.discrete_laplace(20, shift=2)
        + accounting.zcdp(F(1, 1000))
    )


@pytest.mark.parametrize(
    ("read", "relation", "theirs", "wide"),
    [
        (many(event("PoissonSampled", sampling_probability=0.01, event=gaussian(1.1)), 1000), "add-remove",
         1.7529853768394315, 1e-3),
        (event("Laplace", noise_multiplier=20.0), "add-remove", 0.04999800004800072, 1e-4),
        (many(event("DiscreteLaplace", noise_parameter=0.05, sensitivity=2), 20), "add-remove",
         1.7814589791118995, 1e-4),
        (many(event("Laplace", noise_multiplier=20.0), 20), "add-remove", 0.8630161838390443, 2e-3),
        (event("RandomizedResponse", noise_parameter=0.8, num_buckets=4), "replace", 0.6931974999968751, 1e-4),
        (gaussian(8.0), "add-remove", 0.5038556576086854, 1e-3),
        (gaussian(8.0), "replace", 1.0607018640120818, 1e-3),
    ],
)  # fmt: skip
def test_an_event_costs_what_dp_accounting_says(read: object, relation: str, theirs: float, wide: float) -> None:
    ours = from_dp_accounting(read, relation=relation).epsilon(1e-6)
    assert ours == pytest.approx(theirs, rel=wide)


def test_all_forms_of_an_event_are_one() -> None:
    truth = accounting.gaussian(2).poisson(F(1, 8)) * 3 + accounting.pure(1)
    nested = event(
        "Composed",
        events=[
            many(event("PoissonSampled", sampling_probability=0.125, event=gaussian()), 3),
            event("EpsilonDelta", epsilon=1, delta=0),
        ],
    )
    objects = live(
        "Composed",
        events=[
            live("SelfComposed", event=live("PoissonSampled", sampling_probability=0.125,
                 event=live("Gaussian", noise_multiplier=np.float64(2))), count=np.int64(3)),
            live("EpsilonDelta", epsilon=1.0, delta=0.0),
        ],
    )  # fmt: skip
    wrapper = namedtuple("wrapper", ["module_name", "class_name", "epsilon", "delta"])
    named = wrapper("dp_accounting.dp_event", b"EpsilonDeltaDpEvent", 1.0, 0)
    assert from_dp_accounting(nested) == from_dp_accounting(json.dumps(nested)) == truth
    assert from_dp_accounting(objects) == truth
    assert from_dp_accounting(named) == accounting.pure(1)
    assert from_dp_accounting({"class_name": "NoOpDpEvent"}) == NOTHING


def test_every_kind_of_event_is_its_constructor() -> None:
    for read, truth in (
        (event("NoOp"), NOTHING),
        (event("Gaussian", noise_multiplier="1/3"), accounting.gaussian(F(1, 3))),
        (event("Laplace", noise_multiplier=0.1), accounting.laplace(F(1, 10))),
        (event("DiscreteLaplace", noise_parameter=0.1, sensitivity=3), accounting.discrete_laplace(10, 3)),
        (event("DiscreteGaussian", sigma=3, sensitivity=2.5, dimension=1), accounting.discrete_gaussian(3, 2)),
        (event("DiscreteGaussian", sigma=4, sensitivity=2.0), accounting.zcdp(F(1, 8))),
        (event("DiscreteGaussian", sigma=4, dimension=7), accounting.zcdp(F(1, 32))),
        (event("ZC", rho=0.1), accounting.zcdp(F(1, 10))),
        (event("EpsilonDelta", epsilon=0.1, delta=1e-6), accounting.approximate(F(1, 10), F(1, 10**6))),
        (event("ExponentialMechanism", epsilon=0.1), accounting.exponential(F(1, 10))),
        (event("PermuteAndFlip", epsilon=0.1), accounting.pure(F(1, 10))),
        (many(gaussian(), 0), NOTHING),
        (event("Composed", events=[]), NOTHING),
    ):
        assert from_dp_accounting(read) == truth


def test_by_replacement_noise_covers_two_contributions() -> None:
    for read, truth in (
        (gaussian(2), accounting.gaussian(1)),
        (event("Laplace", noise_multiplier=4), accounting.laplace(2)),
        (event("DiscreteLaplace", noise_parameter=0.1, sensitivity=3), accounting.discrete_laplace(10, 6)),
        (event("DiscreteGaussian", sigma=4, sensitivity=2, dimension=1), accounting.discrete_gaussian(4, 4)),
        (event("DiscreteGaussian", sigma=4, sensitivity=2), accounting.zcdp(F(1, 2))),
        (event("EpsilonDelta", epsilon=0.1, delta=0), accounting.pure(F(1, 10))),
    ):
        assert from_dp_accounting(read, relation="replace") == truth


@pytest.mark.parametrize("buckets", [2, 3, 10**6])
def test_randomized_response_is_its_own_two_laws(buckets: int) -> None:
    read = event("RandomizedResponse", noise_parameter=0.5, num_buckets=buckets)
    loss = from_dp_accounting(read, relation="replace")
    # The definition: the odds of the truth are (1 − p + p/k) to p/k, and the curve at ε = 0 is their difference.
    assert loss.epsilon() == pytest.approx(np.log(1 + buckets), rel=1e-9)
    assert loss.delta(0) == pytest.approx(0.5, rel=1e-9)
    with pytest.raises(InvalidParameter, match=r"event \(RandomizedResponse.*replace neighbours only"):
        from_dp_accounting(read)
    assert from_dp_accounting(to_dp_accounting_json(loss, relation="replace"), relation="replace") == loss


def test_a_sample_is_taken_of_one_use_and_by_one_relation() -> None:
    sampled = event("PoissonSampled", sampling_probability=0.5, event=gaussian())
    twice = event("PoissonSampled", sampling_probability=0.5, event=sampled)
    assert from_dp_accounting(twice) == accounting.gaussian(2).poisson(F(1, 4))
    together = event("PoissonSampled", sampling_probability=0.5, event=many(gaussian(), 4))
    assert from_dp_accounting(together) == accounting.gaussian(1).poisson(F(1, 2))
    whole = event("PoissonSampled", sampling_probability=1.0, event=gaussian())
    assert from_dp_accounting(whole) == accounting.gaussian(2)
    laplaces = many(event("Laplace", noise_multiplier=1), 2)
    with pytest.raises(InvalidParameter, match="a sample is taken for one"):
        from_dp_accounting(event("PoissonSampled", sampling_probability=0.5, event=laplaces))
    with pytest.raises(InvalidParameter, match="add-remove neighbours only"):
        from_dp_accounting(sampled, relation="replace")


def test_a_sample_without_replacement_is_refused_by_adding_and_removing() -> None:
    read = event("SampledWithoutReplacement", source_dataset_size=100, sample_size=10, event=gaussian())
    with pytest.raises(InvalidParameter, match="replace neighbours only"):
        from_dp_accounting(read)


def test_a_sample_without_replacement_covers_two_contributions_and_comes_back() -> None:
    read = event("SampledWithoutReplacement", source_dataset_size=100, sample_size=10, event=gaussian())
    loss = from_dp_accounting(many(read, 7), relation="replace")
    assert loss == accounting.gaussian(1).fixed_size(10, 100) * 7
    assert json.loads(to_dp_accounting_json(loss)) == many(read, 7)  # its relation is known
    with pytest.raises(InvalidParameter, match="at most population"):
        from_dp_accounting(read | {"sample_size": 101}, relation="replace")
    with pytest.raises(InvalidParameter, match="holds for replace neighbours only"):
        to_dp_accounting_json(loss, relation="add-remove")


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (event("NonPrivate"), "NonPrivateDpEvent is not an event"),
        (event("Unsupported"), "UnsupportedDpEvent is not an event"),
        (event("RepeatAndSelect", event=gaussian(), mean=1, shape=1), "RepeatAndSelectDpEvent is not"),
        (event("SingleEpochTreeAggregation", noise_multiplier=1, step_counts=3), "SingleEpochTree"),
        (event("MixtureOfGaussians"), "MixtureOfGaussiansDpEvent is not"),
        (event("TruncatedSubsampledGaussian"), "TruncatedSubsampledGaussianDpEvent is not"),
        (event("SampledWithReplacement"), "SampledWithReplacementDpEvent is not"),
        (live("NonPrivate"), "NonPrivateDpEvent is not an event"),
        (3, "int is not an event"),
        ([], "needs a class_name"),
        ({}, "needs a class_name"),
        (event("Gaussian"), "'noise_multiplier' is missing"),
        (live("Gaussian"), "'noise_multiplier' is missing"),
        (gaussian(0), r"event \(GaussianDpEvent\): noise_multiplier must be above 0"),
        (gaussian(-1), "above 0"),
        (gaussian(float("nan")), "noise_multiplier must be a finite number"),
        (gaussian(float("inf")), "finite"),
        (gaussian(True), "must be a number"),
        (gaussian([1]), "must be a number, not list"),
        (gaussian() | {"clip": 3}, "field 'clip' is not known"),
        (["dp_accounting.dp_event", "GaussianDpEvent", 1.0, 2.0], "more fields"),
        (many(gaussian(), -1), "count must be an integer from 0"),
        (many(gaussian(), 1.5), "count must be an integer, not float"),
        (many(gaussian(), True), "count must be an integer, not bool"),
        (many(gaussian(), 10**5000), "from 0 to 10"),
        (many(many(gaussian(), 10**10), 10**10), "more than 10.18 uses"),
        (many({}, 1), r"^event\.event: an event needs"),
        (event("Composed", events=[gaussian(), gaussian(-1)]), r"^event\.events\[1\] \(GaussianDpEvent\): noise"),
        (event("Composed", events=gaussian()), r"^event \(ComposedDpEvent\): events must be a list"),
        (event("PoissonSampled", sampling_probability=1.5, event=gaussian()), r"rate must lie in \[0, 1\]"),
        (event("PoissonSampled", sampling_probability=-0.5, event=gaussian()), r"rate must lie in \[0, 1\]"),
        (event("DiscreteLaplace", noise_parameter=1, sensitivity=1.5), "sensitivity must be an integer"),
        (event("DiscreteGaussian", sigma=1, sensitivity=-1), "sensitivity must be at least 0"),
        (event("ZC", rho=0.1, xi=0.2), "xi must be 0"),
        (event("EpsilonDelta", epsilon=-1, delta=0), "epsilon must be at least 0"),
        (event("EpsilonDelta", epsilon=1, delta=1), "delta must lie"),
        ("{", "not JSON"),
        ('{"class_name": "GaussianDpEvent", "noise_multiplier": NaN}', "NaN is no parameter"),
        ('{"class_name": "GaussianDpEvent", "noise_multiplier": 1, "noise_multiplier": 9}', "keys twice"),
        ("[" * 10**5, "nested too deeply"),
        ('["m", "SelfComposedDpEvent", ["m", "NoOpDpEvent"], ' + "9" * 5000 + "]", "not JSON"),
    ],
)  # fmt: skip
def test_what_cannot_be_accounted_for_is_refused_by_name(read: object, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        from_dp_accounting(read)


def test_randomized_response_with_one_answer_says_nothing() -> None:
    read = event("RandomizedResponse", noise_parameter=0, num_buckets=1)
    assert from_dp_accounting(read, relation="replace") == NOTHING


@pytest.mark.parametrize("noise", [0, -0.1, 1.5])
def test_a_noise_parameter_that_is_none_is_refused(noise: float) -> None:
    read = event("RandomizedResponse", noise_parameter=noise, num_buckets=3)
    with pytest.raises(InvalidParameter, match="noise_parameter must lie in"):
        from_dp_accounting(read, relation="replace")


def test_a_later_version_s_new_field_is_refused_unless_it_is_not_set() -> None:
    def attrs_like(value: object) -> object:
        attribute = namedtuple("attribute", ["name"])
        fields = (attribute("noise_multiplier"), attribute("truncation"))
        values = {"__attrs_attrs__": fields, "noise_multiplier": 2.0, "truncation": value}
        return type("GaussianDpEvent", (), values)()

    assert from_dp_accounting(attrs_like(None)) == accounting.gaussian(2)
    with pytest.raises(InvalidParameter, match="'truncation' is not known"):
        from_dp_accounting(attrs_like(3))


def test_bombs_of_depth_and_of_sharing_are_harmless() -> None:
    node: dict[str, object] = gaussian()
    for _ in range(50):
        node = event("Composed", events=[node, node])  # 2^50 leaves, 51 objects
    assert from_dp_accounting(node) == accounting.gaussian(2) * 2**50
    node = event("NoOp")
    for _ in range(150):
        node = many(node, 1)
    with pytest.raises(InvalidParameter, match="more than 100 deep"):
        from_dp_accounting(node)
    loop = event("Composed", events=[])
    loop["events"] = [loop]
    with pytest.raises(InvalidParameter, match="inside itself"):
        from_dp_accounting(loop)


def fractions(low: F, high: F) -> st.SearchStrategy[F]:
    return st.fractions(low, high, max_denominator=10**6)


losses = st.one_of(
    fractions(F(1, 100), F(100)).map(accounting.gaussian),
    fractions(F(1, 100), F(100)).map(accounting.gdp),
    fractions(F(1, 100), F(100)).map(accounting.laplace),
    fractions(F(0), F(3)).map(accounting.pure),
    fractions(F(0), F(3)).map(accounting.zcdp),
    fractions(F(0), F(3)).map(accounting.exponential),
    st.builds(accounting.approximate, fractions(F(0), F(3)), fractions(F(0), F(1, 2))),
    st.builds(accounting.discrete_laplace, fractions(F(1, 100), F(100)), st.integers(0, 9)),
    st.builds(accounting.discrete_gaussian, fractions(F(1, 100), F(100)), st.integers(0, 9)),
    st.builds(lambda z, q: accounting.gaussian(z).poisson(q), fractions(F(1, 9), F(9)), fractions(F(0), F(1))),
)


@given(st.lists(st.tuples(losses, st.integers(1, 10**6)), max_size=4), st.sampled_from(["add-remove", "replace"]))
def test_a_loss_comes_back_the_same_or_a_little_larger(parts: list[tuple[PrivacyLoss, int]], relation: str) -> None:
    loss = sum((one * n for one, n in parts), NOTHING)
    if relation == "replace" and loss.events.relation is not None:
        with pytest.raises(InvalidParameter, match="add-remove neighbours only"):
            to_dp_accounting_json(loss, relation=relation)
        return
    text = to_dp_accounting_json(loss, relation=relation)
    back = from_dp_accounting(text, relation=relation)
    assert from_dp_accounting(json.loads(text), relation=relation) == back
    if relation == "add-remove":
        assert to_dp_accounting_json(back) == text  # what was rounded once is not rounded again
    for known in ("pure", "rho", "failure"):
        before, after = getattr(loss, known), getattr(back, known)
        assert (before is None) == (after is None) or before == 0
        if before:
            most = 8 if relation == "replace" else 1 + 1e-14  # an odd shift is written as the next even one
            assert before <= after <= before * F(most) or known == "pure"


def test_decimals_come_back_exactly() -> None:
    loss = (
        accounting.gaussian(1.1).poisson(0.004) * 10_000
        + accounting.laplace(0.3)
        + accounting.zcdp(0.7)
        + accounting.approximate(0.1, 1e-9) * 3
        + accounting.discrete_laplace(20, 3)
        + accounting.discrete_gaussian(7.7)
        + accounting.exponential(0.3)
    )
    assert from_dp_accounting(to_dp_accounting_json(loss)) == loss
    assert to_dp_accounting_json(NOTHING) == json.dumps(event("NoOp"))


def test_written_numbers_are_rounded_to_the_side_of_more_loss() -> None:
    third = json.loads(to_dp_accounting_json(accounting.gaussian(F(1, 3))))["noise_multiplier"]
    assert F(1, 3) - F(1, 10**15) < F(repr(third)) <= F(1, 3)
    root = json.loads(to_dp_accounting_json(accounting.gaussian(1).poisson(1) * 2))
    assert root["count"] == 2
    both = (accounting.gaussian(1) * 2).poisson(F(1, 3))  # one use of μ² = 2
    written = json.loads(to_dp_accounting_json(both))
    assert F(repr(written["event"]["noise_multiplier"])) ** 2 * 2 <= 1
    assert F(repr(written["sampling_probability"])) >= F(1, 3)
    assert F(repr(json.loads(to_dp_accounting_json(accounting.pure(F(1, 3))))["epsilon"])) >= F(1, 3)


def test_randomized_response_is_written_with_no_more_noise_than_it_has() -> None:
    for e, k in ((F(1, 10), 2), (F(3), 5), (F(0), 3)):
        text = to_dp_accounting_json(accounting.randomized_response(e, k), relation="replace")
        noise = F(repr(json.loads(text)["noise_parameter"]))
        assert noise <= 1
        back = from_dp_accounting(text, relation="replace")
        assert float(e) <= back.epsilon() <= float(e) * (1 + 1e-13) + 1e-15
    with pytest.raises(InvalidParameter, match="replace neighbours only"):
        to_dp_accounting_json(accounting.randomized_response(1))
    with pytest.raises(InvalidParameter, match="above 600"):
        to_dp_accounting_json(accounting.randomized_response(700), relation="replace")


def test_what_has_no_event_is_not_written() -> None:
    with pytest.raises(InvalidParameter, match="two laws"):
        to_dp_accounting_json(accounting.from_pmfs([0.75, 0.25], [0.5, 0.5]))
    with pytest.raises(InvalidParameter, match="too large"):
        to_dp_accounting_json(accounting.pure(10**399))
    with pytest.raises(InvalidParameter, match="too small"):
        to_dp_accounting_json(accounting.gaussian(F(1, 10**399)))
    with pytest.raises(InvalidParameter, match="holds for add-remove neighbours only"):
        to_dp_accounting_json(accounting.gaussian(1).poisson(0.1), relation="replace")
    with pytest.raises(InvalidParameter, match="relation must be"):
        to_dp_accounting_json(accounting.gaussian(1), relation="swap")


def test_objects_are_made_by_the_installed_library_or_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = type("module", (), {})()
    for name in ("ComposedDpEvent", "SelfComposedDpEvent", "PoissonSampledDpEvent", "GaussianDpEvent"):
        setattr(made, name, lambda _name=name, **values: live(_name.removesuffix("DpEvent"), **values))
    monkeypatch.setattr(importlib, "import_module", lambda name: {"dp_accounting.dp_event": made}[name])
    loss = accounting.gaussian(2).poisson(0.5) * 3 + accounting.gaussian(1)
    assert from_dp_accounting(to_dp_accounting(loss)) == loss
    with pytest.raises(InvalidParameter, match="installed dp_accounting has no EpsilonDeltaDpEvent"):
        to_dp_accounting(accounting.pure(1))
    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(MissingExtra, match="not installed"):
        to_dp_accounting(loss)


def refuse(name: str) -> Any:
    raise ImportError(name)


def test_objects_of_the_real_library_come_back() -> None:
    pytest.importorskip("dp_accounting")
    loss = accounting.gaussian(2).poisson(0.5) * 3 + accounting.laplace(7) * 2
    assert from_dp_accounting(to_dp_accounting(loss)) == loss


@dataclass
class Accountant:
    history: list[tuple[float, float, int]]


def test_opacus_histories_are_read_in_all_their_forms() -> None:
    history = [(1.1, 0.004, 10_000), (2.0, 1.0, 4)]
    truth = accounting.gaussian(F(11, 10)).poisson(F(4, 1000)) * 10_000 + accounting.gaussian(2) * 4
    named = [{"noise_multiplier": 1.1, "sampling_probability": 0.004, "num_compositions": 10_000}]
    for read in (
        history,
        [list(entry) for entry in history],
        {"history": history, "mechanism": "prv"},
        Accountant(history),
        [*named, {"noise_multiplier": 2, "sample_rate": 1, "steps": 4}],
    ):
        assert from_opacus(read) == truth
    assert from_opacus([]) == NOTHING
    assert from_opacus([(1.0, 0.0, 10), (1.0, 0.5, 0)]) == NOTHING


def test_a_history_of_very_many_entries_stays_flat() -> None:
    assert from_opacus([(1.0, 0.01, 1)] * 5000) == accounting.gaussian(1).poisson(F(1, 100)) * 5000


@pytest.mark.parametrize(
    ("read", "words"),
    [
        ([(1.0, 0.01)], r"history\[0\] must be \(noise_multiplier"),
        ([(1.0, 0.01, 1), 3], r"history\[1\] must be"),
        ([(1.0, 1.01, 1)], r"history\[0\]: rate must lie"),
        ([(0.0, 0.01, 1)], "noise_multiplier must be above 0"),
        ([(float("nan"), 0.01, 1)], "finite"),
        ([(1.0, float("nan"), 1)], "finite"),
        ([(1.0, 0.01, -1)], "steps must be an integer from 0"),
        ([(1.0, 0.01, 1.5)], "steps must be an integer"),
        ([(1.0, 0.01, 10**18)] * 2, "more than 10.18"),
        ({"mechanism": "prv"}, "needs the key 'history'"),
        ({"history": [], "mechanism": "laplace"}, "mechanism must be one of"),
        ({"history": "abc"}, "must be a list"),
        (3, "must be a list"),
        ([{"noise_multiplier": 1, "steps": 2}], "sample_rate or sampling_probability"),
        (
            [{"noise_multiplier": 1, "steps": 2, "sample_rate": 0.1, "sampling_probability": 0.1}],
            "sample_rate or sampling_probability, once",
        ),
        ([{"noise_multiplier": 1, "steps": 2, "sample_rate": 0.1, "clip": 1}], "keys beyond"),
    ],
)
def test_a_history_that_is_none_is_refused_by_entry(read: object, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        from_opacus(read)


def mechanism(name: str, **values: object) -> Any:
    return type(name, (), values)()


def test_prv_mechanisms_are_read_as_their_objects_hold_them() -> None:
    # As prv_accountant 0.2.0 stores them: long doubles, μ as a float quotient, ε inside a pure mechanism.
    sampled = mechanism("PoissonSubsampledGaussianMechanism", p=np.longdouble(0.01), sigma=np.longdouble(1.1))
    assert from_prv(sampled, 1000) == accounting.gaussian(F(11, 10)).poisson(F(1, 100)) * 1000
    pure = mechanism("PureDPMechanism", eps=0.1)
    both = [pure, mechanism("ApproximateDPMechanism", pure_dp=pure, delta=1e-6)]
    truth = accounting.pure(F(1, 10)) * 3 + accounting.approximate(F(1, 10), F(1, 10**6))
    assert from_prv(both, [3, 1]) == from_prv(mechanism("PRVAccountant", prvs=both), [3, 1]) == truth
    assert from_prv(mechanism("LaplaceMechanism", mu=0.5), 2) == accounting.laplace(2) * 2
    third = from_prv(mechanism("GaussianMechanism", mu=1.0 / 3.0), 1).mu_squared
    assert third is not None
    assert F(1, 9) <= third <= F(1, 9) * (1 + F(1, 10**15))


def test_prv_mechanisms_that_are_none_are_refused() -> None:
    for prvs, n, words in (
        (mechanism("Other"), 1, "Other is not a mechanism"),
        (mechanism("PureDPMechanism"), 1, "does not hold its parameters"),
        (mechanism("PureDPMechanism", eps=0.1), [1, 2], "as many counts"),
        (mechanism("PureDPMechanism", eps=0.1), -1, "from 0"),
        (mechanism("GaussianMechanism", mu=float("nan")), 1, "finite"),
        (mechanism("PoissonSubsampledGaussianMechanism", p=1.5, sigma=1.0), 1, "rate must lie"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            from_prv(prvs, n)


def test_a_file_is_read_whichever_library_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    sgd = accounting.gaussian(F(11, 10)).poisson(F(1, 100)) * 1000
    for text, truth in (
        (WRITTEN, from_dp_accounting(WRITTEN)),
        (to_dp_accounting_json(sgd), sgd),
        ("[[1.1, 0.01, 1000]]", sgd),
        ('{"history": [[1.1, 0.01, 600], [1.1, 0.01, 400]], "mechanism": "rdp"}', sgd),
        ('{"noise_multiplier": 1.1, "sample_rate": 0.01, "steps": 1000}', sgd),
        ("[]", NOTHING),
    ):
        path.write_text(text, encoding="utf-8")
        assert read_history(path) == truth
    path.write_text(json.dumps(gaussian(2)), encoding="utf-8")
    assert read_history(str(path), relation="replace") == accounting.gaussian(1)


def test_a_file_that_records_no_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with pytest.raises(SourceError, match="cannot be read"):
        read_history(path)
    for text, words in (
        (b"\xff\xfe", "UTF-8"),
        (b"", "not JSON"),
        (b"3", "neither a dp_accounting event nor a history"),
        (b'{"steps": 3}', "neither"),
        (b"[[1.1, 0.01, Infinity]]", "Infinity is no parameter"),
        (b'{"class_name": "NonPrivateDpEvent"}', "run.json: event: NonPrivateDpEvent"),
    ):
        path.write_bytes(text)
        with pytest.raises(InvalidParameter, match=words):
            read_history(path)
    path.write_text("[[1.1, 0.01, 1000]]", encoding="utf-8")
    with pytest.raises(InvalidParameter, match="add-remove neighbours only"):
        read_history(path, relation="replace")


def test_nothing_else_has_to_be_installed_or_loaded() -> None:
    others = {"dp_accounting", "opacus", "prv_accountant", "torch", "scipy"}
    code = f"import sys, discreet.accounting.interop; assert not {others} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_history_comes_back_as_it_was_written() -> None:
    run = [(1.1, 0.004, 10_000), (0.7, 1.0, 3), (2.5, 1e-5, 7)]
    assert sorted(to_opacus(from_opacus(run))) == sorted(run)
    with pytest.raises(InvalidParameter, match="Gaussian noise only"):
        to_opacus(accounting.laplace(1))
    irrational = accounting.gdp(math.sqrt(2)) * 2  # rounded to the side of more loss
    assert from_opacus(to_opacus(irrational)).epsilon(1e-6) >= irrational.epsilon(1e-6)
