"""Private training of PyTorch models; the extra `discreet[torch]`."""

from __future__ import annotations

from discreet.errors import MissingExtra
from discreet.namespace import public_names

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingExtra(
        "Training PyTorch models needs torch, which is not installed.", hint="pip install 'discreet[torch]'"
    ) from None

from discreet.learn.torch.clipping import clipped_sum as clipped_sum
from discreet.learn.torch.preflight import Preflight as Preflight
from discreet.learn.torch.preflight import check as check
from discreet.learn.torch.preflight import fix as fix
from discreet.learn.torch.session import TrainedModel as TrainedModel
from discreet.learn.torch.trainer import PrivateTrainer as PrivateTrainer
from discreet.learn.torch.trainer import TrainingPlan as TrainingPlan
from discreet.learn.torch.trainer import make_private as make_private


def __dir__() -> list[str]:
    return public_names(globals())
