"""What an audited engine has to offer: two methods, and a third one where answers can be drawn in bulk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from discreet.audit.sql.tables import Tables

Draws: TypeAlias = Callable[[int], Sequence[object] | NDArray[np.float64]]
"""So many answers, one after the other on axis 0."""


class Engine(Protocol):
    """Any engine that answers questions about tables.

    `open` is called once for each world, and `ask` very often; each answer must be a new one. An engine that remembers
    its answers, or whose budget runs out, therefore opens itself inside `ask`, and may let `open` return
    the tables as they are. What either raises is an output like any other. A connection with a method
    `close` is closed.

    >>> class Naive:
    ...     def open(self, tables): return tables["t"]
    ...     def ask(self, connection, query): return len(connection)
    """

    def open(self, tables: Tables) -> Any:
        """A connection to these tables: whatever `ask` needs."""

    def ask(self, connection: Any, query: str) -> object:
        """A fresh answer, with everything that an analyst would see: values, keys, their order, names, notes."""


@runtime_checkable
class BulkEngine(Protocol):
    """An engine that can draw many answers of two neighbouring worlds quickly, as numbers."""

    def bulk(self, first: Any, second: Any, query: str) -> tuple[Draws, Draws] | None:
        """For each of two connections a function that draws fresh answers; None where there is no short cut.

        The two may share what does not depend on which of them is drawn from, such as the list of columns.
        """
