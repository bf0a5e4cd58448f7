"""`probe_floats`: what floating-point numbers give away: at other sizes, and by the grid on which outputs lie."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.accounting.loss import PrivacyLoss
from discreet.audit.claim import Claim
from discreet.audit.evidence.intervals import broken, clopper_pearson
from discreet.audit.finding import CONSISTENT, VIOLATED, Chance, Probe
from discreet.audit.outputs.sampling import Sampler
from discreet.audit.outputs.tree import lowest_bit
from discreet.audit.probes.contrast import VALUES, Contrast, OutputNumbers, contrast
from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, count
from discreet.privacy.guarantee import Approximate, Budget

SUSPICIOUS = "suspicious"
SKIPPED = "skipped"

SIZES: tuple[float, ...] = (0, 1, 1e-9, 1000, 2**24 + 1, 10**9, 2**40, 2**53 - 1, 2**53 + 1)
"""Values at which a mechanism is probed beside those that were given: small, and where floats run out of bits."""

_FEW = 4000  # runs of each special input
_CLEAR = 1.0  # by how much more bits must tell than values do, to be worth a look

_SPECIAL = {"NaN": math.nan, "+∞": math.inf, "-∞": -math.inf, "-0.0": -0.0, "5e-324": 5e-324}

_ENOUGH = 50  # outputs of one size; all of them are even multiples by a chance of 2^-50
_SPARE = 8  # bits of a float that are used by chance only


def probe_floats(
    mechanism: Callable[..., object],
    x: object = 0.0,
    x_neighbour: object = 1.0,
    *,
    claimed: Budget | Approximate | PrivacyLoss | Claim | Real | None = None,
    samples: int = 100_000,
    values: Sequence[float] = SIZES,
    seconds: float = 30.0,
    error: float = 1e-6,
    everywhere: bool = False,
) -> tuple[Probe, ...]:
    """Probes of the floats that a numeric mechanism returns: reachable support, lattice, large values, special inputs.

    Args:
        mechanism: takes a number (or an array or a list of numbers) and returns a number or a vector of them; with a
            keyword `n`, n of them.
        x: an input.
        x_neighbour: its neighbour.
        claimed: what the mechanism is said to keep; without it nothing is called "violated".
        samples: the most samples of one input.
        values: where else the mechanism is probed; integers only where x is one.
        seconds: about how long all of it may take.
        error: the chance that any probe says "violated" although the claim is kept.
        everywhere: whether every float is an input, with those for neighbours that lie no farther apart than x and
            x_neighbour, and NaN and the infinities for neighbours of any. Then what is found there is a violation
            too; else it is only "suspicious", since the claim may not be meant for such inputs.

    Guarantee:
        "violated" is said where an event that was chosen from other samples refutes the claim by two Clopper–Pearson
        intervals. They are all right, of all inputs, with probability at least 1 − `error`. "suspicious" is no proof.

    References:
        Mironov 2012, https://doi.org/10.1145/2382196.2382264 (low-order bits); Jin et al. 2022,
        https://arxiv.org/abs/2112.05307; Casacuberta et al. 2022, https://arxiv.org/abs/2207.10635; Haney et al.
        2022, https://arxiv.org/abs/2207.13793 (precision as a function of the value); Clopper, Pearson 1934,
        https://doi.org/10.1093/biomet/26.4.404

    Raises:
        InvalidParameter: a mechanism that cannot be called with one input, or that keeps hanging.
    """
    if not 0 < error < 1 or not seconds > 0:
        raise InvalidParameter("error must lie in (0, 1), and seconds must be above 0.")
    claim = None if claimed is None else Claim.of(claimed)
    pairs = [(x, x_neighbour), *shifted(x, x_neighbour, values)]
    special = specials(x)
    runs = _Runs(mechanism, count("samples", samples, least=100), time.monotonic() + seconds)
    each = error / (2 * len(pairs))
    # the pair that was given comes first, then what is quick, then the others, which share what time is left
    outcomes = _compared(runs, pairs[:1], claim, each, counts=True)
    about_special = _special_inputs(runs, special, claim if everywhere else None, error / 40)
    outcomes += _compared(runs, pairs[1:], claim, each, counts=everywhere)
    return (_support(outcomes, claim, error), _lattice(outcomes), _large(outcomes), about_special)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Two neighbours, the samples of both, and the event that tells them apart."""

    x: Any
    y: Any
    a: OutputNumbers
    b: OutputNumbers
    found: Contrast | None
    broken: bool
    counts: bool  # whether the claim is meant for these inputs


class _Runs:
    """Draws samples until there are enough or the time is over."""

    def __init__(self, mechanism: Callable[..., object], samples: int, deadline: float) -> None:
        self._mechanism = mechanism
        self.samples = samples
        self._deadline = deadline

    def left(self) -> float:
        """Seconds that are left."""
        return self._deadline - time.monotonic()

    def draw(self, x: object, most: int, seconds: float) -> OutputNumbers | None:
        """Return some samples as numbers; None where the outputs are none, or the time is over."""
        end = time.monotonic() + min(seconds, self.left())
        if time.monotonic() >= end:
            return None
        with np.errstate(all="ignore"):  # the mechanism may warn about NaN as it likes
            sampler = Sampler(self._mechanism, x)
            parts: list[OutputNumbers] = []
            drawn, size = 0, 64
            while drawn < most and (not parts or time.monotonic() < end):
                part = OutputNumbers.of(sampler.draw(min(size, most - drawn)))
                if part is None:
                    return None
                parts.append(part)
                drawn += len(part)
                size = min(4 * size, 1 << 20)
                started = end - time.monotonic()
                if not sampler.takes_n and started > 0:  # do not overshoot by a factor of four
                    size = min(size, max(64, drawn))
        return OutputNumbers.joined(parts)


def _compared(
    runs: _Runs, pairs: Sequence[tuple[Any, Any]], claim: Claim | None, error: float, *, counts: bool
) -> list[_Outcome]:
    points = () if claim is None else claim.points
    delta = 0.0 if claim is None else claim.delta
    outcomes = []
    for done, (x, y) in enumerate(pairs):
        share = runs.left() / (2 * max(2, len(pairs) - done))
        a = runs.draw(x, runs.samples, share)
        b = runs.draw(y, runs.samples, share)
        if a is None or b is None:
            continue
        found = contrast(a, b, delta, error)
        broken = found is not None and found.breaks(points)
        outcomes.append(_Outcome(x, y, a, b, found, broken, counts))
    return outcomes


def _support(outcomes: Sequence[_Outcome], claim: Claim | None, error: float) -> Probe:
    """Return whether outputs, by their bits, are reachable from one neighbour and not from the other."""
    name = "reachable support"
    judged = [o for o in outcomes if o.found is not None]
    if not judged:
        return Probe(name, SKIPPED, "Outputs are not numbers, or the time was over before there were enough.", {})
    worst = max(
        judged, key=lambda o: (o.broken and o.counts, o.broken, _excess(o), o.found.epsilon if o.found else 0.0)
    )
    found = worst.found
    assert found is not None
    x, y = (worst.x, worst.y) if found.forward else (worst.y, worst.x)
    details = {
        "x": _short(x),
        "x_neighbour": _short(y),
        "event": found.event,
        "feature": found.feature,
        "hits": (found.likelier.hits, found.other.hits),
        "samples": (found.likelier.samples, found.other.samples),
        "low": found.likelier.low,
        "high": found.other.high,
        "epsilon_lower": found.epsilon,
        "epsilon_of_values": found.plain,
        "pairs": len(judged),
        "error": error,
    }
    seen = (
        f"{found.event}: {_share(found.likelier)} of the outputs at {_short(x)} and {_share(found.other)} of those at "
        f"{_short(y)}, so ε ≥ {found.epsilon:.3g}"
    )
    plainly = found.feature == VALUES or _excess(worst) <= 0
    if worst.broken:
        why = " The order of the values alone tells as much." if plainly else ""
        said = "" if claim is None else f" {claim.text} was claimed."
        if not worst.counts:
            why += " The claim may not be meant for these inputs."
        return Probe(name, VIOLATED if worst.counts else SUSPICIOUS, f"{seen}.{said}{why}", details)
    if not plainly:
        return Probe(
            name, SUSPICIOUS, f"{seen}, while the values alone say {found.plain:.3g}: bits give it away.", details
        )
    words = f"At {len(judged)} pairs of inputs the bits of the outputs tell no more than their values."
    return Probe(name, CONSISTENT, words, details)


def _excess(outcome: _Outcome) -> float:
    """Return how much more bits tell than values do."""
    found = outcome.found
    return 0.0 if found is None or found.feature == VALUES else found.epsilon - found.plain - _CLEAR


def _lattice(outcomes: Sequence[_Outcome]) -> Probe:
    """Return whether outputs lie on one public grid, at every input and at every size."""
    name = "lattice"
    grids = [(o, grid_of(o.a, o.x), grid_of(o.b, o.y)) for o in outcomes]
    known = [(o, g, h) for o, g, h in grids if g is not None and h is not None]
    if not known:
        return Probe(name, SKIPPED, "There are too few finite outputs that are numbers.", {})
    details: dict[str, Any] = {"grids": {_short(o.x): g.exponent for o, g, _ in known}}
    for o, g, h in known:
        if g.relative or h.relative:
            worst = g if g.relative else h
            return Probe(
                name,
                SUSPICIOUS,
                f"At {_short(o.x)} outputs have no fixed grid: their lowest bits go down to 2^{worst.exponent}, and "
                "higher for larger outputs. Precision is a function of the value.",
                details,
            )
    exact = [g.exponent for _, g, h in known for g in (g, h) if not g.coarse and not g.rounded]
    if exact and min(exact) != max(exact):
        return Probe(
            name,
            SUSPICIOUS,
            f"Outputs are multiples of 2^{min(exact)} at some inputs and of 2^{max(exact)} at others: the grid "
            "depends on the input.",
            details,
        )
    if exact:
        words = f"All outputs are multiples of 2^{exact[0]}, as far as floats hold them."
    elif any(g.coarse for _, g, _ in known):
        words = "Outputs repeat, on a grid that is much coarser than floats."
    else:
        words = "Outputs are too large, or too few, to tell their grid from that of floats."
    return Probe(name, CONSISTENT, words, details)


def _large(outcomes: Sequence[_Outcome]) -> Probe:
    """Return whether noise is lost where values are large, beyond what rounding an exact sum to a float explains."""
    name = "large values"
    scalar = [o for o in outcomes if is_number(o.x) and o.a.values.shape[1] == 1]
    if len(scalar) < 2:
        return Probe(name, SKIPPED, "The input or the output is no single number, or no other value was tried.", {})
    base = min(scalar, key=lambda o: abs(o.x))
    with np.errstate(all="ignore"):
        noise = base.a.values[:, 0] - float(base.x)
    noise = noise[np.isfinite(noise)]
    lost: dict[str, float] = {}
    explained: dict[str, float] = {}
    for o in scalar:
        if o is base or not len(noise):
            continue
        at = float(o.x)
        same = int((o.a.values[:, 0] == at).sum())
        expected = int((at + noise == at).sum())
        low = clopper_pearson(same, len(o.a), 1e-9)[0]
        high = clopper_pearson(expected, len(noise), 1e-9)[1]
        (lost if low > high else explained)[_short(o.x)] = same / len(o.a)
    details = {"unchanged": {**explained, **lost}}
    if lost:
        at_value, share = max(lost.items(), key=lambda item: item[1])
        return Probe(
            name,
            SUSPICIOUS,
            f"{share:.1%} of the outputs at {at_value} are the input itself, many more than rounding the sum to a "
            "float explains: noise is lost.",
            details,
        )
    words = f"Up to {max((abs(o.x) for o in scalar), default=0):.3g} no more noise is lost than floats must round away."
    return Probe(name, CONSISTENT, words, details)


def _special_inputs(runs: _Runs, special: Sequence[tuple[str, Any, Any]], claim: Claim | None, error: float) -> Probe:
    """Return what NaN, infinities, −0.0 and denormals do."""
    name = "special inputs"
    if not special:
        return Probe(name, SKIPPED, "The input is no float.", {})
    seen: dict[str, str] = {}
    verdicts = []
    for text, value, plain in special:
        share = runs.left() / 20
        a, b = (runs.draw(value, min(_FEW, runs.samples), share), runs.draw(plain, min(_FEW, runs.samples), share))
        if a is None or b is None or min(len(a), len(b)) < 40:
            continue
        verdict, seen[text] = _judged(a, b, claim, error)
        verdicts.append(verdict)
    if not seen:
        return Probe(name, SKIPPED, "Outputs are not numbers, or the time was over.", {})
    worst = next(v for v in (VIOLATED, SUSPICIOUS, CONSISTENT) if v in verdicts)
    return Probe(name, worst, "; ".join(f"{k}: {v}" for k, v in seen.items()) + ".", {"seen": seen, "error": error})


def _judged(a: OutputNumbers, b: OutputNumbers, claim: Claim | None, error: float) -> tuple[str, str]:
    if a.raised.all():
        return CONSISTENT, f"refused ({', '.join(a.kinds)}); a caller has to refuse it before it meets data"
    for what, mask in (("NaN", np.isnan), ("infinite", np.isinf)):
        hits = [int((mask(s.values).any(axis=1) & ~s.raised).sum()) for s in (a, b)]
        if hits[0] / len(a) > 0.01 + 2 * hits[1] / len(b):
            low, high = clopper_pearson(hits[0], len(a), error)[0], clopper_pearson(hits[1], len(b), error)[1]
            refuted = claim is not None and broken(claim.points, low, high * (1 + 1e-9))
            return (
                VIOLATED if refuted else SUSPICIOUS
            ), f"{hits[0] / len(a):.0%} of the outputs are {what}, which shows"
    found = contrast(a, b, 0.0 if claim is None else claim.delta, error)
    if found is not None and claim is not None and found.breaks(claim.points):
        return VIOLATED, f"{found.event} shows it, with ε ≥ {found.epsilon:.3g}"
    if found is not None and found.feature != VALUES and found.epsilon > found.plain + _CLEAR:
        return SUSPICIOUS, f"{found.event} shows it, with ε ≥ {found.epsilon:.3g}"
    return CONSISTENT, "outputs do not show it"


def _short(x: object) -> str:
    text = f"{x!r}" if not isinstance(x, np.ndarray) else f"array{x.ravel()[:3].tolist()}"
    return text if len(text) <= 40 else text[:37] + "…"


def _share(chance: Chance) -> str:
    return "none" if not chance.hits else f"{chance.estimate:.2g}"


def shifted(x: Any, y: Any, values: Sequence[float]) -> list[tuple[Any, Any]]:
    """Neighbours at other values, no farther from each other than x and y, entry by entry."""
    pairs: list[tuple[Any, Any]] = []
    if not _is_numeric(x) or not _is_numeric(y) or np.shape(x) != np.shape(y):
        return pairs
    for value in values:
        if not math.isfinite(value) or (_whole(x) and value != int(value)):
            continue
        flat = [_next(v, a, b) for v, a, b in zip(_filled(x, value), _entries(x), _entries(y), strict=True)]
        start, end = _like(x, _filled(x, value)), _like(y, flat)
        if start is None or end is None or _entries(start) == _entries(end):
            continue
        if all(_entries(start) != _entries(known) for known, _ in [(x, y), *pairs]):
            pairs.append((start, end))
    return pairs


def _next(value: Any, a: Any, b: Any) -> Any:
    """Return the value + (b − a), or the float next to it if that is farther away than b is from a."""
    change = Fraction(b) - Fraction(a)
    if isinstance(value, int):
        return value + int(change)
    end = float(Fraction(value) + change)
    return end if abs(Fraction(end) - Fraction(value)) <= abs(change) else math.nextafter(end, value)


def _filled(x: Any, value: float) -> list[Any]:
    return [(int(value) if _whole(x) else float(value)) for _ in _entries(x)]


def _entries(x: Any) -> list[Any]:
    return list(np.asarray(x).ravel().tolist()) if np.ndim(x) else [x.item() if isinstance(x, np.generic) else x]


def _like(x: Any, entries: list[Any]) -> Any:
    """Return an input of the same kind with other numbers; None where they do not fit its type."""
    if isinstance(x, np.ndarray):
        try:
            filled = np.asarray(entries, dtype=x.dtype).reshape(x.shape)
        except OverflowError:
            return None
        return filled if filled.ravel().tolist() == entries else None
    if isinstance(x, list):
        return entries
    if isinstance(x, tuple):
        return tuple(entries)
    if isinstance(x, np.generic):
        kept = type(x)(entries[0])
        return kept if kept.item() == entries[0] else None
    return entries[0]


def specials(x: Any) -> list[tuple[str, Any, Any]]:
    """(name, input with a special number in its first place, the same with an ordinary one)."""
    if not _is_numeric(x) or _whole(x):
        return []
    found = []
    for name, value in _SPECIAL.items():
        plain = 0.0 if abs(value) < 1 else _entries(x)[0]
        a, b = (_like_any(x, [v, *_entries(x)[1:]]) for v in (value, plain))
        found.append((name, a, b))
    return found


def _like_any(x: Any, entries: list[Any]) -> Any:
    if isinstance(x, np.ndarray):
        return np.asarray(entries, dtype=x.dtype).reshape(x.shape)
    if isinstance(x, (list, tuple)):
        return type(x)(entries)
    return type(x)(entries[0]) if isinstance(x, np.generic) else entries[0]


def is_number(x: object) -> bool:
    return isinstance(x, (int, float, np.integer, np.floating)) and not isinstance(x, bool)


def _is_numeric(x: object) -> bool:
    if isinstance(x, np.ndarray):
        return x.dtype.kind in "fiu" and x.size > 0 and bool(np.isfinite(x).all())
    if type(x) in (list, tuple):
        assert isinstance(x, (list, tuple))
        return bool(x) and all(is_number(v) and math.isfinite(v) for v in x)
    return is_number(x) and math.isfinite(x)  # type: ignore[arg-type]  # a number, as was just seen


def _whole(x: Any) -> bool:
    """Return whether an input is made of integers, which stay integers."""
    return all(isinstance(v, int) for v in _entries(x))


@dataclass(frozen=True, slots=True)
class Seen:
    """What the lowest bits of some outputs say.

    Attributes:
        exponent: all outputs are multiples of 2^exponent.
        relative: whether smaller outputs have finer bits, so that there is no grid beside that of floats.
        coarse: whether outputs repeat so much that they lie on a coarse grid, of whatever step.
        rounded: whether the grid is as fine as floats of that size can be: it may be finer in truth.
    """

    exponent: int
    relative: bool
    coarse: bool
    rounded: bool


def grid_of(sample: OutputNumbers, x: Any) -> Seen | None:
    """Return the grid of the outputs at one input x; None where fewer than fifty of them are finite."""
    values = sample.values[np.isfinite(sample.values)]
    away = values[values != 0]
    if len(values) < _ENOUGH:
        return None
    if not len(away):
        return Seen(0, False, True, False)
    low = lowest_bit(away).astype(np.int64)
    size = np.frexp(away)[1].astype(np.int64) - 1
    exponent = int(low.min())
    # distinct outputs become rarer the more there are on a grid; half of them is far from what continuous noise gives
    coarse = len(np.unique(values)) <= len(values) / 2
    sizes = [(int(s), int(low[size == s].min())) for s in np.unique(size) if (size == s).sum() >= _ENOUGH]
    finest = [s for s, bits in sizes if s - bits >= sample.bits - 1 - _SPARE]
    rises = len(sizes) >= 3 and sizes[-1][1] - sizes[0][1] >= (sizes[-1][0] - sizes[0][0]) / 2
    # On a grid, small outputs leave bits unused; where even the smallest use them all, there is none.
    relative = not coarse and bool(finest) and rises
    rounded = bool((size - low >= sample.bits - 1 - _SPARE).any())
    return Seen(exponent, relative, coarse, rounded)
