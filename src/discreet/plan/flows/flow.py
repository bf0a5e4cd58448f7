"""How much can flow from the units of one population to those of another, when no unit passes more than its cap.

Guarantee:
    The flow of a group is a function of that group's edges alone. Taking all edges of one unit of the first population
    away lowers it by at least 0 and at most `most_first`; of the second, by at most `most_second`. It is the sum of
    the weights where no unit has more than its cap, and never more (docs/proofs/flows.md).

References:
    Kasiviswanathan, Nissim, Raskhodnikova, Smith 2013, *Analyzing graphs with node differential privacy*, TCC, Section
    4, where the number of edges of a graph is extended so by a maximum flow, https://doi.org/10.1007/978-3-642-36594-2_26
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter

Whole: TypeAlias = NDArray[np.int64]

LARGEST = (1 << 31) - 1
"""The largest cap: what one pass of the solver's 32 bits holds. Sums of flows have 64."""


def largest_flows(
    group: Whole, first: Whole, second: Whole, weight: Whole, *, groups: int, most_first: int, most_second: int
) -> Whole:
    """Return the maximum flow of each group, as whole numbers.

    Args:
        group: of each edge, its group's number, from 0 and below `groups`.
        first: of each edge, the number of its unit in the first population, from 0.
        second: the same of the second.
        weight: of each edge, how much it can carry, from 0; edges between the same two units of a group add up.
        groups: how many groups there are.
        most_first: how much each unit of the first population passes in a group, at most `LARGEST`.
        most_second: the same of the second.
    """
    for most in (most_first, most_second):
        if not 0 <= most <= LARGEST:
            raise InvalidParameter(f"a flow's cap must lie between 0 and 2^31 − 1, not {most}.")
    flows = np.zeros(groups, np.int64)
    there = weight > 0
    if not there.any() or not min(most_first, most_second):
        return flows
    sources, start = _nodes(group[there], first[there])
    sinks, end = _nodes(group[there], second[there])
    start, end, carried = _edges(start, end, weight[there], len(sinks))
    carried = np.minimum(carried, min(most_first, most_second))
    into, out = _passing(start, end, carried, (len(sources), most_first), (len(sinks), most_second))
    np.add.at(flows, sources[into], out)
    return flows


def _nodes(group: Whole, unit: Whole) -> tuple[Whole, Whole]:
    """Return the group of each node, which is a unit in a group, and each edge's node."""
    units = int(unit.max()) + 1
    named, places = np.unique(group * units + unit, return_inverse=True)
    return named // units, places.astype(np.int64)


def _edges(start: Whole, end: Whole, weight: Whole, ends: int) -> tuple[Whole, Whole, Whole]:
    """Each pair of nodes once, with the sum of its weights."""
    pairs, places = np.unique(start * ends + end, return_inverse=True)
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, places, weight)
    return pairs // ends, pairs % ends, sums


def _passing(
    start: Whole, end: Whole, carried: Whole, first: tuple[int, int], second: tuple[int, int]
) -> tuple[Whole, Whole]:
    """Return the nodes of the first population, and how much a maximum flow sends through each; no number is above
    `LARGEST`.

    Edges go one way only, so that what the solver keeps of each lies between 0 and its capacity.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    (sources, most_first), (sinks, most_second) = first, second
    last = sources + sinks + 1
    tails = np.concatenate([np.zeros(sources, np.int64), start + 1, np.arange(sinks) + sources + 1])
    heads = np.concatenate([np.arange(sources) + 1, end + sources + 1, np.full(sinks, last)])
    held = np.concatenate([np.full(sources, most_first), carried, np.full(sinks, most_second)])
    graph = csr_array((held.astype(np.int32), (tails, heads)), shape=(last + 1, last + 1))
    flow = maximum_flow(graph, 0, last).flow
    row = slice(flow.indptr[0], flow.indptr[1])
    return flow.indices[row].astype(np.int64) - 1, flow.data[row].astype(np.int64)
