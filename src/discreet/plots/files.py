"""Figures made without `pyplot`, and written by their suffix."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.errors import InvalidParameter, MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NO_DATE = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
_DOTS_PER_INCH = 160


def blank(width: float, height: float) -> Figure:
    """An empty figure, in inches, that belongs to no window.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra(
            "Pictures need matplotlib, which is not installed.", hint="pip install 'discreet[plots]'"
        ) from None
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def check(file: str | PathLike[str]) -> None:
    """Refuse, before the work, a file without a known suffix and a machine without matplotlib.

    Raises:
        InvalidParameter: a suffix that is not .png, .svg or .pdf.
        MissingExtra: matplotlib is not installed.
    """
    _suffix(Path(file))
    blank(1, 1)


def save(figure: Figure, file: str | PathLike[str]) -> None:
    """Write a figure as PNG, SVG or PDF, by the suffix of the file.

    Raises:
        InvalidParameter: another suffix.
    """
    path = Path(file)
    suffix = _suffix(path)
    figure.savefig(path, format=suffix[1:], dpi=_DOTS_PER_INCH, metadata=_NO_DATE[suffix])


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in _NO_DATE:
        raise InvalidParameter(
            f"a picture is written to a .png, .svg or .pdf file, not to {str(path)!r}.", hint="as in loss.png"
        )
    return suffix
