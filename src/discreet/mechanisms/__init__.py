"""Mechanisms: public parameters and a cost before the data, a release after it.

One law, one file. `mechanism` is the textbook's four arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import Mechanism as Mechanism
from discreet.mechanisms.binary_tree import BinaryTree as BinaryTree
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian as DiscreteGaussian
from discreet.mechanisms.exponential import Exponential as Exponential
from discreet.mechanisms.exponential import PermuteAndFlip as PermuteAndFlip
from discreet.mechanisms.exponential_quantile import ExponentialQuantile as ExponentialQuantile
from discreet.mechanisms.gaussian import Gaussian as Gaussian
from discreet.mechanisms.geometric import Geometric as Geometric
from discreet.mechanisms.histogram import Histogram as Histogram
from discreet.mechanisms.laplace import Laplace as Laplace
from discreet.mechanisms.linear.matrix_mechanism import MatrixMechanism as MatrixMechanism
from discreet.mechanisms.noisy_max import NoisyMax as NoisyMax
from discreet.mechanisms.numeric import Numeric as Numeric
from discreet.mechanisms.quantiles import Median as Median
from discreet.mechanisms.quantiles import Quantiles as Quantiles
from discreet.mechanisms.sparse_vector import AboveThreshold as AboveThreshold
from discreet.mechanisms.sparse_vector import SparseVector as SparseVector
from discreet.mechanisms.stable.propose_test_release import ProposeTestRelease as ProposeTestRelease
from discreet.mechanisms.stable.sample_and_aggregate import SampleAndAggregate as SampleAndAggregate
from discreet.mechanisms.stable.smooth_sensitivity import SmoothSensitivity as SmoothSensitivity
from discreet.mechanisms.staircase import Staircase as Staircase
from discreet.mechanisms.threshold import Threshold as Threshold
from discreet.mechanisms.top_k import TopK as TopK
from discreet.namespace import public_names
from discreet.privacy.exact import Real, exact


def mechanism(
    noise: str | None = None,
    *,
    sensitivity: Real | None = None,
    epsilon: Real | None = None,
    delta: Real | None = None,
    dimension: int | None = None,
) -> Numeric:
    """Return the mechanism that adds `noise` for a value of this sensitivity at this ε (and δ).

    Args:
        noise: "laplace", "geometric", "gaussian" or "discrete-gaussian", in any letter case; also "normal", and
            "discrete-laplace" for "geometric".
        sensitivity: by how much the value may change between neighbours.
        epsilon: the guarantee.
        delta: the guarantee, with Gaussian noise.
        dimension: how many numbers an array of floats holds.

    Guarantee:
        That of the class it returns: (ε, 0)-DP for "laplace" and "geometric" (sensitivity in ℓ1), (ε, δ)-DP
        for "gaussian" and "discrete-gaussian" (sensitivity in ℓ2). An impossible or missing argument is
        refused, never guessed.

    References:
        Dwork, Roth, *The Algorithmic Foundations of Differential Privacy*, Theorems 3.6 and A.1,
        https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf

    >>> mechanism("laplace", sensitivity=1, epsilon=0.5)
    Laplace(epsilon=0.5, sensitivity=1)

    Raises:
        InvalidParameter: an argument is missing, unknown or impossible.
    """
    asked, noise = noise, _name(noise)
    if noise not in _PURE and noise not in _APPROXIMATE:
        names = ", ".join(repr(n) for n in (*_PURE, *_APPROXIMATE))
        raise InvalidParameter(f"noise must be one of {names}, not {asked!r}.", hint=_EXAMPLE)
    if sensitivity is None or epsilon is None:
        missing = "sensitivity" if sensitivity is None else "epsilon"
        raise InvalidParameter(f"mechanism needs {missing}.", hint=_EXAMPLE)
    if noise in _PURE:
        if delta is not None and exact("delta", delta) != 0:
            raise InvalidParameter(
                f"{noise} noise needs no delta, and takes 0 only, not {delta}.",
                hint="leave delta out, or ask for noise='gaussian'",
            )
        return _PURE[noise](epsilon=epsilon, sensitivity=sensitivity, dimension=dimension)
    if delta is None:
        raise InvalidParameter(f"{noise} noise needs a delta.", hint="give delta=1e-6, or ask for noise='laplace'")
    return _APPROXIMATE[noise](epsilon=epsilon, delta=delta, sensitivity=sensitivity, dimension=dimension)


def _name(noise: object) -> str:
    """Return a kind of noise as it is called here."""
    if not isinstance(noise, str):
        return ""
    spelled = "-".join(noise.lower().replace("_", " ").replace("-", " ").split())
    return _ALIASES.get(spelled, spelled)


_EXAMPLE = "mechanism('laplace', sensitivity=1, epsilon=0.5)"
_ALIASES = MappingProxyType(
    {
        "lap": "laplace",
        "discrete-laplace": "geometric",
        "two-sided-geometric": "geometric",
        "gauss": "gaussian",
        "normal": "gaussian",
        "discrete-normal": "discrete-gaussian",
    }
)
_PURE: MappingProxyType[str, Callable[..., Numeric]] = MappingProxyType({"laplace": Laplace, "geometric": Geometric})
_APPROXIMATE: MappingProxyType[str, Callable[..., Numeric]] = MappingProxyType(
    {"gaussian": Gaussian, "discrete-gaussian": DiscreteGaussian}
)


def __dir__() -> list[str]:
    return public_names(globals())
