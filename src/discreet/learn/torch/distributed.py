"""One run on several processes: each adds up its share of a batch, and the first one draws batches and noise.

References:
    docs/proofs/torch.md, "Several processes".
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from discreet.errors import InvalidParameter


class Ranks:
    """The processes of a run, which call each method at once.

    Attributes:
        rank: which of them this is; 0 draws who is in a batch, and the noise.
        size: how many there are.
    """

    def __init__(self, group: Any = None, device: torch.device | None = None) -> None:
        self._group, self._device = group, device
        self.rank = 0 if group is None else dist.get_rank(group)
        self.size = 1 if group is None else dist.get_world_size(group)

    @classmethod
    def of(cls, model: nn.Module) -> tuple[Ranks, nn.Module]:
        """Return the processes of a model, and the model inside of DistributedDataParallel."""
        if type(model) is not DistributedDataParallel:
            return cls(), model
        return cls(model.process_group, next(model.parameters()).device), model.module

    def agree(self, **values: Any) -> None:
        """Compare values, by what they are written as, with those of all others.

        Raises:
            InvalidParameter: some differ; all processes are told which.
        """
        if self.size == 1:
            return
        digests = [int.from_bytes(sha256(repr(x).encode()).digest()[:7], "big") for x in values.values()]
        own = torch.tensor(digests, device=self._device)
        found = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(found, own, group=self._group)
        differ = (torch.stack(found) != found[0]).any(0).tolist()
        names = [name.replace("_", " ") for name, differs in zip(values, differ, strict=True) if differs]
        if names:
            raise InvalidParameter(
                f"The processes of this run differ in {', '.join(names)}.",
                hint="make the same trainer in each, of one data set",
            )

    def first(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers of rank 0, whose dtype is that of all."""
        if self.size == 1:
            return values
        length = torch.tensor([len(values)], device=self._device)
        source = dist.get_global_rank(self._group, 0)
        dist.broadcast(length, source, group=self._group)
        given = torch.from_numpy(values if self.rank == 0 else np.empty(int(length), values.dtype)).to(self._device)
        dist.broadcast(given, source, group=self._group)
        return given.cpu().numpy()

    def added(self, total: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum over all of them, of whole numbers: without rounding."""
        if self.size == 1:
            return total
        given = torch.tensor(total, device=self._device)  # a copy: it is reduced in place
        dist.all_reduce(given, group=self._group)
        return given.cpu().numpy()
