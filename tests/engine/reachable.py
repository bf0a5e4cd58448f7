"""What can be reached from an error: frames, by its traceback, its cause, its context, and errors in these frames."""

from __future__ import annotations

import sys
import traceback
from types import FrameType


def reachable(error: BaseException) -> tuple[list[BaseException], list[FrameType]]:
    """Return every error that can be reached from this one, itself among them, and every frame that has ended."""
    running, at = [], sys._getframe()
    while at is not None:
        running.append(at)
        at = at.f_back  # type: ignore[assignment]  # None of the first
    errors, frames = [error], list[FrameType]()
    for one in errors:  # which grows
        mine = [frame for frame, _ in traceback.walk_tb(one.__traceback__) if frame not in running]
        held = [value for frame in mine for value in frame.f_locals.values()]
        near = [one.__cause__, one.__context__, *held]
        errors += [e for e in near if isinstance(e, BaseException) and not any(e is known for known in errors)]
        frames += mine
    return errors, frames
