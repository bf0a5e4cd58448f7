"""One accountant asked one case, in that accountant's own environment.

    python -m benchmarks.accounting_peers PEER CASE value      prints every ε (or noise) as JSON
    python -m benchmarks.accounting_peers PEER CASE time       prints what the case's first δ costs
    python -m benchmarks.accounting_peers discreet W5 import   prints what importing this package's accountant costs

Nothing is imported of the other accountants. Before the clock starts, the accountant has answered a case that is
nearly the same (`Case.other`): imports are done, and what it may have kept does not help.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import sys
import sysconfig
import types
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.accounting_cases import CASES, Case, mixture
from benchmarks.runner import report_sample

Ask = Callable[[float], float]
"""ε at a δ (or the noise at which it is met)."""


class Unable(Exception):
    """The accountant has no such mechanism."""


def discreet(case: Case) -> Ask:
    """This package, by its public interface."""
    loss = _discreet_loss(case)
    if case.kind == "noise":
        from discreet.accounting import calibrate, gaussian

        def run(sigma: Any) -> Any:
            return gaussian(sigma).poisson(case.rate) * case.steps

        return lambda delta: float(calibrate(run, epsilon=case.epsilon, delta=delta))
    return lambda delta: loss.epsilon(delta)


def discreet_lower(case: Case) -> Ask:
    """The certified lower bound."""
    if case.kind == "noise":
        raise Unable
    loss = _discreet_loss(case)
    return lambda delta: loss.bounds(delta)[0]


def _discreet_loss(case: Case) -> Any:
    from discreet import accounting as a

    if case.kind in ("sgd", "gaussian"):
        return a.gaussian(case.sigma).poisson(case.rate) * case.steps
    if case.kind == "response":
        return a.randomized_response(case.epsilon) * case.steps
    if case.kind == "fixed":
        sampled = getattr(a.gaussian(case.sigma), "fixed_size", None)
        if sampled is None:
            raise Unable
        return sampled(case.batch, case.records) * case.steps
    if case.kind != "mixed":
        return None
    make: dict[str, Callable[[float], Any]] = {
        "laplace": lambda x: a.laplace(1, x),
        "gaussian": a.gaussian,
        "response": a.randomized_response,
        "discrete laplace": a.geometric,
    }
    return sum(make[family](x) * n for family, x, n in mixture(case))


def dp_accounting_pld(case: Case) -> Ask:
    """Google's privacy loss distributions, pessimistic, on the default grid."""
    pld = _load("dp_accounting.pld.privacy_loss_distribution")

    if case.kind == "noise":
        return partial(_dp_accounting_noise, case, _load("dp_accounting.pld").PLDAccountant)
    if case.kind in ("sgd", "gaussian"):
        one = pld.from_gaussian_mechanism(float(case.sigma), sampling_prob=float(case.rate))
        return _answers(one.self_compose(case.steps))
    if case.kind == "response":
        one = pld.from_randomized_response(_lie(float(case.epsilon)), 2)
        return _answers(one.self_compose(case.steps))
    make = {
        "laplace": lambda x: pld.from_laplace_mechanism(1 / x),
        "gaussian": pld.from_gaussian_mechanism,
        "response": lambda x: pld.from_randomized_response(_lie(x), 2),
        "discrete laplace": lambda x: pld.from_discrete_laplace_mechanism(x),
    }
    total = None
    for family, x, n in _mixture(case):
        part = make[family](x).self_compose(n) if n > 1 else make[family](x)
        total = part if total is None else total.compose(part)
    return _answers(total)


def dp_accounting_events(case: Case) -> Ask:
    """The same accountant as its users call it: events composed into a `PLDAccountant`."""
    d = _load("dp_accounting")

    if case.kind != "response":
        raise Unable  # the same numbers as above
    one = d.RandomizedResponseDpEvent(_lie(float(case.epsilon)), 2)
    accountant = _load("dp_accounting.pld").PLDAccountant(neighboring_relation=d.NeighboringRelation.REPLACE_ONE)
    return _asked(accountant.compose(d.SelfComposedDpEvent(one, case.steps)))


def dp_accounting_rdp(case: Case) -> Ask:
    """Google's Rényi accountant on its default orders."""
    d, accountant_of = _load("dp_accounting"), _load("dp_accounting.rdp").RdpAccountant

    if case.kind == "noise":
        return partial(_dp_accounting_noise, case, accountant_of)
    replace = case.kind in ("response", "fixed", "mixed")
    relation = d.NeighboringRelation.REPLACE_ONE if replace else d.NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = accountant_of(neighboring_relation=relation)
    if case.kind == "fixed":
        inner: Any = d.GaussianDpEvent(float(case.sigma))
        accountant.compose(d.SampledWithoutReplacementDpEvent(case.records, case.batch, inner), case.steps)
    elif case.kind == "response":
        accountant.compose(d.RandomizedResponseDpEvent(_lie(float(case.epsilon)), 2), case.steps)
    elif case.kind == "mixed":
        make = {"laplace": lambda x: d.LaplaceDpEvent(1 / x), "gaussian": d.GaussianDpEvent}
        for family, x, n in mixture(case):
            response = partial(d.RandomizedResponseDpEvent, _lie(x), 2)  # discrete Laplace of shift 1 is one
            accountant.compose(make[family](x) if family in make else response(), n)
    else:
        accountant.compose(_dp_accounting_sgd(case, float(case.sigma)))
    return _asked(accountant)


def prv(case: Case, eps_error: float = 0.1) -> Ask:
    """Microsoft's accountant: its upper bound, with δ/1000 of error in δ."""
    p = _load("prv_accountant")

    if case.kind == "noise":
        solve = _load("prv_accountant.dpsgd").find_noise_multiplier
        return lambda delta: solve(float(case.rate), case.steps, float(case.epsilon), delta, eps_error=eps_error)
    mechanisms: list[Any]
    counts = [case.steps]
    if case.kind == "sgd":
        mechanisms = [p.PoissonSubsampledGaussianMechanism(float(case.rate), float(case.sigma))]
    elif case.kind == "gaussian":
        mechanisms = [p.GaussianMechanism(float(case.sigma))]
    elif case.kind == "response":
        mechanisms = [p.PureDPMechanism(float(case.epsilon))]
    else:
        make = {"laplace": p.LaplaceMechanism, "gaussian": p.GaussianMechanism}
        parts = _mixture(case)
        mechanisms = [make.get(family, p.PureDPMechanism)(x) for family, x, _ in parts]
        counts = [n for _, _, n in parts]

    def ask(delta: float) -> float:
        accountant = p.PRVAccountant(
            prvs=mechanisms, max_self_compositions=counts, eps_error=eps_error, delta_error=delta / 1000
        )
        return float(accountant.compute_epsilon(delta, counts)[2])

    return ask


def opacus(case: Case, mechanism: str) -> Ask:
    """The accountants of Opacus, which need no torch once its other parts are not loaded."""
    if "opacus" not in sys.modules:
        spec = importlib.util.find_spec("opacus")
        assert spec is not None
        package: Any = types.ModuleType("opacus")
        package.__path__ = list(spec.submodule_search_locations or ())
        optimizers: Any = types.ModuleType("opacus.optimizers")
        optimizers.DPOptimizer = object  # for an annotation
        sys.modules |= {"opacus": package, "opacus.optimizers": optimizers}
    accountants = importlib.import_module("opacus.accountants")
    if case.kind == "noise":
        utils = importlib.import_module("opacus.accountants.utils")
        return lambda delta: utils.get_noise_multiplier(
            target_epsilon=float(case.epsilon),
            target_delta=delta,
            sample_rate=float(case.rate),
            steps=case.steps,
            accountant=mechanism,
        )
    if case.kind != "sgd":
        raise Unable
    accountant = accountants.create_accountant(mechanism)
    accountant.history = [(float(case.sigma), float(case.rate), case.steps)]
    return lambda delta: float(accountant.get_epsilon(delta=delta))


def opake(case: Case) -> Ask:
    """Opake's native accountant on its default grid; its Python package asks for a newer Python than 3.11.7."""
    [path] = Path(sysconfig.get_paths()["purelib"]).glob("opake/api/accounting/core/opake_accounting*.so")
    spec = importlib.util.spec_from_file_location("opake_accounting", path)
    assert spec is not None
    assert spec.loader is not None
    o: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(o)
    grid = o.DiscretizationConfig(discretization=1e-4)

    def sgd(sigma: float) -> Any:
        return o.poisson_pld(o.gaussian_pld(sigma, grid), float(case.rate)).self_compose(case.steps)

    if case.kind == "noise":  # bisection on its curve

        def solve(delta: float) -> float:
            low, high = 0.3, 20.0
            while high - low > 1e-4:
                middle = (low + high) / 2
                above = sgd(middle).epsilon_at(delta) > float(case.epsilon)
                low, high = (middle, high) if above else (low, middle)
            return high

        return solve
    if case.kind == "sgd":
        total = sgd(float(case.sigma))
    elif case.kind == "gaussian":
        total = o.gaussian_pld(float(case.sigma), grid).self_compose(case.steps)
    elif case.kind == "response":
        total = o.eps_delta_pld(float(case.epsilon), 0.0, grid).self_compose(case.steps)
    else:
        raise Unable  # no Laplace
    return lambda delta: float(total.epsilon_at(delta))


def gdpnum(case: Case) -> Ask:
    """The Gaussian approximation with a correction of the composed curve."""
    if case.kind != "sgd":
        raise Unable
    accountant = _load("gdpnum").CTDAccountant()
    for _ in range(case.steps):
        accountant.step(noise_multiplier=float(case.sigma), sample_rate=float(case.rate))
    return lambda delta: float(accountant.get_epsilon(delta=delta))


def dp_accelerator(case: Case) -> Ask:
    """A Rényi accountant in native code, asked for a batch of records at the same rate."""
    if case.kind != "sgd":
        raise Unable
    records = 10**6
    batch = round(records * float(case.rate))
    accountant = _load("dp_accelerator").DPSGDAccountant(float(case.sigma), batch, records)
    return lambda delta: float(accountant.get_epsilon(case.steps, delta))


def autodp(case: Case) -> Ask:
    """Autodp's composition of Rényi curves."""
    m, t = _load("autodp.mechanism_zoo"), _load("autodp.transformer_zoo")

    steps = [case.steps]
    if case.kind in ("sgd", "fixed"):
        gaussian = m.GaussianMechanism(sigma=float(case.sigma))
        if case.kind == "fixed":
            gaussian.replace_one, gaussian.neighboring = True, "replace_one"
        sampler = t.AmplificationBySampling(PoissonSampling=case.kind == "sgd")
        rate = float(case.rate) if case.kind == "sgd" else case.batch / case.records
        mechanisms = [sampler(gaussian, rate, improved_bound_flag=True)]
    elif case.kind == "gaussian":
        mechanisms = [m.GaussianMechanism(sigma=float(case.sigma))]
    elif case.kind == "response":
        mechanisms = [m.PureDP_Mechanism(eps=float(case.epsilon))]
    elif case.kind == "mixed":
        make = {"laplace": lambda x: m.LaplaceMechanism(b=1 / x), "gaussian": lambda x: m.GaussianMechanism(sigma=x)}
        other = lambda x: m.RandresponseMechanism(p=1 / (1 + math.exp(-x)))  # noqa: E731
        parts = _mixture(case)
        mechanisms = [make.get(family, other)(x) for family, x, _ in parts]
        steps = [n for _, _, n in parts]
    else:
        raise Unable
    total = t.Composition()(mechanisms, steps)
    return lambda delta: float(total.get_approxDP(delta))


def opendp(case: Case) -> Ask:
    """OpenDP's composition, by zCDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def laplace(x: float) -> Any:
        return dp.c.make_pureDP_to_zCDP(dp.m.make_laplace(*space, scale=1 / x))

    if case.kind == "gaussian":
        parts = [dp.m.make_gaussian(*space, scale=float(case.sigma))] * case.steps
    elif case.kind == "response":
        parts = [laplace(float(case.epsilon))] * case.steps
    elif case.kind == "mixed":
        parts = []
        for family, x, n in mixture(case):
            parts += [dp.m.make_gaussian(*space, scale=x) if family == "gaussian" else laplace(x)] * n
    else:
        raise Unable
    total = dp.c.make_zCDP_to_approxDP(dp.c.make_composition(parts)).map(1.0)
    return lambda delta: float(total.epsilon(delta))


ACCOUNTANTS: dict[str, tuple[str, Callable[[Case], Ask]]] = {
    "discreet": ("", discreet),
    "discreet, lower bound": ("", discreet_lower),
    "dp-accounting PLD": ("dp-accounting", dp_accounting_pld),
    "dp-accounting PLD, events": ("dp-accounting", dp_accounting_events),
    "dp-accounting RDP": ("dp-accounting", dp_accounting_rdp),
    "prv-accountant": ("prv-accountant", prv),
    "prv-accountant, 0.01": ("prv-accountant", partial(prv, eps_error=0.01)),
    "Opacus PRV": ("opacus", partial(opacus, mechanism="prv")),
    "Opacus RDP": ("opacus", partial(opacus, mechanism="rdp")),
    "Opacus GDP": ("opacus", partial(opacus, mechanism="gdp")),
    "opake": ("opake-accounting", opake),
    "gdpnum": ("gdpnum", gdpnum),
    "dp-accelerator": ("dp-accelerator", dp_accelerator),
    "autodp": ("autodp", autodp),
    "OpenDP": ("opendp", opendp),
}
"""Name → (environment, or "" for this one; how it is asked)."""


def _load(module: str) -> Any:
    return importlib.import_module(module)


def _asked(accountant: Any) -> Ask:
    return lambda delta: float(accountant.get_epsilon(delta))


def _answers(total: Any) -> Ask:
    return lambda delta: float(total.get_epsilon_for_delta(delta))


def _dp_accounting_sgd(case: Case, sigma: float) -> Any:
    d = _load("dp_accounting")

    one: Any = d.GaussianDpEvent(sigma)
    if float(case.rate) < 1:
        one = d.PoissonSampledDpEvent(float(case.rate), one)
    return d.SelfComposedDpEvent(one, case.steps)


def _dp_accounting_noise(case: Case, accountant: Callable[[], Any], delta: float) -> float:
    d = _load("dp_accounting")

    found: float = d.calibrate_dp_mechanism(
        accountant,
        partial(_dp_accounting_sgd, case),
        float(case.epsilon),
        delta,
        d.LowerEndpointAndGuess(0.3, 1.0),
        tol=1e-4,
    )
    return found


def _lie(epsilon: float) -> float:
    """The noise parameter of randomized response with two buckets."""
    return 2 / (1 + math.exp(epsilon))


def _mixture(case: Case) -> tuple[tuple[str, float, int], ...]:
    if case.kind != "mixed":
        raise Unable
    return mixture(case)


def main() -> None:
    """Answers what the command line asks."""
    warnings.filterwarnings("ignore")
    name, case, what = sys.argv[1], CASES[sys.argv[2]], sys.argv[3]
    make = ACCOUNTANTS[name][1]
    deltas = [float(delta) for delta in case.deltas]
    if what == "import":
        for module in ("numpy", "scipy", "scipy.special", "scipy.optimize", "scipy.fft"):
            importlib.import_module(module)
        report_sample(lambda: importlib.import_module("discreet.accounting"))
        return
    if what == "time":
        make(case.other())(deltas[0])
        if case.kind == "mixed":
            mixture(case)  # what is asked is known before it is answered
        report_sample(lambda: make(case)(deltas[0]))
        return
    answers: dict[str, float | str] = {}
    try:
        ask = make(case)
    except Unable:
        print("answers: {}")
        return
    for text, delta in zip(case.deltas, deltas, strict=True):
        try:
            answers[text] = float(ask(delta))
        except Exception as error:  # whatever a peer does at a small δ is its answer
            answers[text] = f"{type(error).__name__}: {str(error)[:120]}"
        print("answers: " + json.dumps(answers), flush=True)  # what came before a time-out stays


if __name__ == "__main__":
    main()
