"""Pictures are written by their suffix, without a browser and without the network."""

from __future__ import annotations

import io
import re
from os import PathLike
from pathlib import Path

from discreet.errors import InvalidParameter
from discreet.plots.vega import Picture, needed

_SUFFIXES = (".svg", ".png", ".pdf")
_UNSEEN = re.compile(r'<path [^<>]*\bopacity="0"/>')  # what tells its number to a pointer; a file has none
_FINE = 2  # pixels of a PNG for each point of the picture


def check(file: str | PathLike[str]) -> None:
    """Refuse, before the work, a file without a known suffix and a machine on which nothing can be drawn.

    Raises:
        InvalidParameter: a suffix that is not .svg, .png or .pdf.
        MissingExtra: Altair or vl-convert is not installed.
    """
    _suffix(Path(file))
    needed()


def save(chart: Picture, file: str | PathLike[str]) -> None:
    """Write a picture as SVG, PNG or PDF, by the suffix of the file.

    Guarantee:
        An SVG file holds the numbers that it shows, and so does the picture itself (`chart.to_dict()`); those are the
        arguments of the function that drew it, or curves computed from them, and nothing else.

    Raises:
        InvalidParameter: another suffix, no such folder, or what is no picture.
        MissingExtra: Altair or vl-convert is not installed.
    """
    if not isinstance(file, str | PathLike):
        raise InvalidParameter(
            f"file must be the path of a file, not {type(file).__name__}.", hint="'loss.svg'"
        )
    path = Path(file)
    suffix = _suffix(path)
    needed()
    if not hasattr(chart, "to_dict") or not hasattr(chart, "save"):
        raise InvalidParameter(
            f"chart must be a picture, not {type(chart).__name__}.",
            hint="plots.save(plots.privacy_loss(dp.mechanisms.Laplace(epsilon=1)), 'loss.svg')",
        )
    if not path.parent.is_dir():
        raise InvalidParameter(
            f"there is no folder {str(path.parent)!r} for the picture.", hint="make it first"
        )
    if suffix == ".svg":
        text = io.StringIO()
        chart.save(text, format="svg")
        path.write_text(_steady(text.getvalue()), encoding="utf-8")
    else:
        pixels = io.BytesIO()
        chart.save(pixels, format=suffix[1:], scale_factor=_FINE if suffix == ".png" else 1)
        path.write_bytes(pixels.getvalue())


def _steady(image: str) -> str:
    """The image without unseen marks, and with names of its clips that do not count what was drawn before it."""
    names = dict.fromkeys(re.findall(r'<clipPath id="(clip\d+)"', image))
    numbers = {name: f"clip{i}" for i, name in enumerate(names)}
    return re.sub(
        r'(id="|url\(#)(clip\d+)\b', lambda m: m[1] + numbers.get(m[2], m[2]), _UNSEEN.sub("", image)
    )


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise InvalidParameter(
            f"a picture is written to a .svg, .png or .pdf file, not to {str(path)!r}.", hint="as in loss.png"
        )
    return suffix
