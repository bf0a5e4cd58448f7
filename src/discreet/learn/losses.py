"""Losses of linear models: the derivative by the score, its Lipschitz constant and its largest size."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

Floats: TypeAlias = NDArray[np.float64]

REACH = 6.0  # scores of a classifier are clamped to ± this where the calibration reads them


@dataclass(frozen=True, slots=True)
class RowLoss(ABC):
    """A convex loss of a row's score z = ⟨w, x⟩, where ‖x‖ ≤ 1."""

    # the largest second derivative β: gradient descent is stable with steps below 2/β
    smoothness: ClassVar[float] = 1.0
    bound: ClassVar[float] = 1.0  # the largest length of the derivative, for scores within `span`
    outputs: int = 1  # how many scores a row has

    @property
    def span(self) -> tuple[float, float]:
        """Within which scores are clamped where the calibration reads them."""
        return -REACH, REACH

    def scaled(self, y: Floats, low: float, high: float) -> Floats:
        """Return targets within their bounds as the loss reads them."""
        return y

    @abstractmethod
    def residual(self, z: Floats, y: Floats) -> Floats:
        """Return the derivative of each row's loss by its scores."""

    @abstractmethod
    def curvature(self, z: Floats, y: Floats) -> Floats:
        """Return the second derivative of each row's loss by each of its scores."""


@dataclass(frozen=True, slots=True)
class Logistic(RowLoss):
    """The logistic loss of labels 0 and 1."""

    smoothness: ClassVar[float] = 0.25

    def residual(self, z: Floats, y: Floats) -> Floats:
        return np.asarray(expit(z) - y)

    def curvature(self, z: Floats, y: Floats) -> Floats:
        return np.asarray(expit(z) * expit(-z))


@dataclass(frozen=True, slots=True)
class Softmax(RowLoss):
    """The cross entropy of labels 0, …, outputs − 1, one score for each."""

    smoothness: ClassVar[float] = 0.5
    bound: ClassVar[float] = math.sqrt(2)

    def residual(self, z: Floats, y: Floats) -> Floats:
        return np.asarray(softmax(z, axis=1) - (y == np.arange(self.outputs)))

    def curvature(self, z: Floats, y: Floats) -> Floats:
        p = softmax(z, axis=1)
        return np.asarray(p * (1 - p))


@dataclass(frozen=True, slots=True)
class Hinge(RowLoss):
    """The hinge loss of labels 0 and 1, smoothed within `width` of its kink."""

    width: ClassVar[float] = 0.5
    smoothness: ClassVar[float] = 1 / (2 * width)

    def residual(self, z: Floats, y: Floats) -> Floats:
        sign = 2 * y - 1
        return np.asarray(-sign * np.clip((1 + self.width - sign * z) / (2 * self.width), 0, 1))

    def curvature(self, z: Floats, y: Floats) -> Floats:
        return np.asarray((np.abs(1 - (2 * y - 1) * z) <= self.width) * self.smoothness)


@dataclass(frozen=True, slots=True)
class Squared(RowLoss):
    """Half the squared error of targets within ±1."""

    bound: ClassVar[float] = 2.0

    @property
    def span(self) -> tuple[float, float]:
        return -1.0, 1.0

    def scaled(self, y: Floats, low: float, high: float) -> Floats:
        return np.asarray(2 * (y - low) / (high - low) - 1)

    def residual(self, z: Floats, y: Floats) -> Floats:
        return z - y

    def curvature(self, z: Floats, y: Floats) -> Floats:
        return np.ones_like(z)


@dataclass(frozen=True, slots=True)
class Huber(Squared):
    """The squared error of targets within ±1 up to `width`, and linear beyond."""

    width: ClassVar[float] = 0.25
    bound: ClassVar[float] = width

    def residual(self, z: Floats, y: Floats) -> Floats:
        return np.clip(z - y, -self.width, self.width)

    def curvature(self, z: Floats, y: Floats) -> Floats:
        return np.asarray((np.abs(z - y) <= self.width).astype(np.float64))


@dataclass(frozen=True, slots=True)
class Poisson(RowLoss):
    """The Poisson loss of numbers from 0 to `high`, over `high`; the mean is exp(z), and at most `high`."""

    high: float = 1.0

    @property
    def span(self) -> tuple[float, float]:
        return min(-REACH, math.log(self.high)), math.log(self.high)

    def scaled(self, y: Floats, low: float, high: float) -> Floats:
        return np.maximum(y, 0)

    def residual(self, z: Floats, y: Floats) -> Floats:
        return np.asarray((np.exp(np.minimum(z, math.log(self.high))) - y) / self.high)

    def curvature(self, z: Floats, y: Floats) -> Floats:
        return np.asarray(np.exp(np.minimum(z, math.log(self.high))) / self.high)


def said(loss: RowLoss) -> Any:
    """Return the loss as plain values, for the identity of a fit."""
    return [type(loss).__name__, loss.outputs, getattr(loss, "width", None), getattr(loss, "high", None)]
