"""Private sketches of vectors: kernel density, similarity and nearest classes by locality-sensitive hashing.

>>> import numpy as np
>>> sketch = DensitySketch(epsilon=1, dimension=2, ranges=(0, 10), bandwidth=0.5)
>>> released = sketch.fit(np.full((50_000, 2), 3.0))
>>> here, there = released.density(np.array([[3.0, 3.0], [9.0, 9.0]]))
>>> bool(here > 0.9 > 0.5 > there)
True
"""

from __future__ import annotations

from discreet.namespace import public_names
from discreet.sketch.density import DensitySketch as DensitySketch
from discreet.sketch.density import SketchClassifier as SketchClassifier


def __dir__() -> list[str]:
    return public_names(globals())
