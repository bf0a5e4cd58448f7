"""Altair, which is loaded when the first picture is drawn, and files of pictures, without a browser or the network."""

from __future__ import annotations

import base64
import importlib
import io
import re
import struct
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from discreet.errors import InvalidParameter, MissingExtra
from discreet.table import visible

if TYPE_CHECKING:
    import altair as alt
    from altair import ChartType as Picture
else:

    class _Late:
        """Stands for the module until something of it is asked for."""

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):  # what inspectors ask of every object
                raise AttributeError(name)
            needed()
            return getattr(importlib.import_module("altair"), name)

    alt = _Late()
    Picture: TypeAlias = Any

__all__ = ["Picture", "Values", "alt", "inline", "needed", "written"]

Values: TypeAlias = list[dict[str, Any]]
"""The rows that a picture shows, which are embedded in its file."""

_SUFFIXES = (".svg", ".png", ".pdf")
_UNSEEN = re.compile(r'<path [^<>]*\bopacity="0"/>')  # what tells its number to a pointer; a file has none
_FINE = 2  # pixels of a PNG for each point of the picture


def needed() -> None:
    """Refuse a machine on which nothing can be drawn.

    Raises:
        MissingExtra: Altair or vl-convert is not installed.
    """
    for module, name in (("altair", "Altair"), ("vl_convert", "vl-convert")):
        try:
            importlib.import_module(module)
        except ImportError:
            raise MissingExtra(
                f"Pictures need {name}, which is not installed.", hint="pip install 'discreet[plots]'"
            ) from None


class Composable:
    """A finished picture: static in a notebook as well, and put beside (|) and below (&) others."""

    def __or__(self, other: Any) -> Any:
        return self._with(alt.hconcat, other)

    def __and__(self, other: Any) -> Any:
        return self._with(alt.vconcat, other)

    def _with(self, put: Any, other: Any) -> Any:
        joined = put(_part(self, "a"), _part(other, "b"))
        joined = joined.resolve_scale(color="independent", strokeDash="independent")
        joined.config = self.config  # type: ignore[attr-defined]  # every chart has one
        return finished(joined)

    def _repr_mimebundle_(self, *args: Any, **kwargs: Any) -> Any:
        """Return the chart, and a PNG for pages that run no scripts; another renderer that was chosen does as it
        does.
        """
        if alt.renderers.active != "default":
            return super()._repr_mimebundle_(*args, **kwargs)  # type: ignore[misc]  # that of Altair
        picture: Any = self
        pixels = io.BytesIO()
        picture.save(pixels, format="png", scale_factor=_FINE)
        image = pixels.getvalue()
        width, height = struct.unpack(">II", image[16:24])  # where every PNG has them
        bundle = {
            f"application/vnd.vegalite.{alt.SCHEMA_VERSION.split('.')[0]}+json": picture.to_dict(),
            "image/png": base64.b64encode(image).decode(),
            "text/plain": f"<{type(picture).__mro__[2].__name__}>",
        }
        return bundle, {"image/png": {"width": width // _FINE, "height": height // _FINE}}


def finished(chart: Any) -> Picture:
    """Return the chart as a `Composable`."""
    object.__setattr__(
        chart, "__class__", _finished(cast("Any", type(chart)))
    )  # Altair takes attributes for parts of the chart
    return cast("Picture", chart)


@cache
def _finished(kind: Any) -> Any:
    return kind if issubclass(kind, Composable) else type(kind.__name__, (Composable, kind), {"__module__": __name__})


def _part(chart: Any, name: str) -> Any:
    """Return a chart as a part of another one: without looks of its own, and with its own names of what is moved."""
    if not hasattr(chart, "to_dict"):
        raise InvalidParameter(f"a picture stands beside a picture, not beside {type(chart).__name__}.")
    part = chart.copy()
    part.config = alt.Undefined
    if isinstance(part, Composable):
        object.__setattr__(part, "__class__", type(part).__mro__[2])
    return _renamed(part, name)


def _renamed(chart: Any, prefix: str) -> Any:
    """Return the chart with a prefix before the names of its zooms: two of one name cannot stand in one picture."""
    for inside in ("params", "layer", "hconcat", "vconcat"):
        parts = getattr(chart, inside, None)
        for part in parts if isinstance(parts, list) else []:
            if isinstance(getattr(part, "name", None), str):
                part.name = prefix + part.name
            if hasattr(part, "to_dict"):
                _renamed(part, prefix)
    return chart


def inline(values: Values) -> alt.InlineData:
    """Return data that travel inside the picture; nothing is ever fetched."""
    return alt.InlineData(values=values)


def written(text: object) -> str:
    """Return a text as every picture shows it: control characters written out, and nothing that could be a tag.

    A page of HTML, or a notebook, holds the rows inside a script, and `</script>` in a group's name would end it: an
    unseen space of no width stands after each `<`.
    """
    return visible(str(text)).replace("<", "<\u200b")


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
        raise InvalidParameter(f"file must be the path of a file, not {type(file).__name__}.", hint="'loss.svg'")
    path = Path(file)
    suffix = _suffix(path)
    needed()
    if not hasattr(chart, "to_dict") or not hasattr(chart, "save"):
        raise InvalidParameter(
            f"chart must be a picture, not {type(chart).__name__}.",
            hint="plots.save(plots.privacy_loss(dp.mechanisms.Laplace(epsilon=1)), 'loss.svg')",
        )
    if not path.parent.is_dir():
        raise InvalidParameter(f"there is no folder {str(path.parent)!r} for the picture.", hint="make it first")
    if suffix == ".svg":
        text = io.StringIO()
        chart.save(text, format="svg")
        path.write_text(_steady(text.getvalue()), encoding="utf-8")
    else:
        pixels = io.BytesIO()
        chart.save(pixels, format=suffix[1:], scale_factor=_FINE if suffix == ".png" else 1)
        path.write_bytes(pixels.getvalue())


def _steady(image: str) -> str:
    """Return the image without unseen marks, and with names of its clips that do not count what was drawn before it."""
    names = dict.fromkeys(re.findall(r'<clipPath id="(clip\d+)"', image))
    numbers = {name: f"clip{i}" for i, name in enumerate(names)}
    return re.sub(r'(id="|url\(#)(clip\d+)\b', lambda m: m[1] + numbers.get(m[2], m[2]), _UNSEEN.sub("", image))


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise InvalidParameter(
            f"a picture is written to a .svg, .png or .pdf file, not to {str(path)!r}.", hint="as in loss.png"
        )
    return suffix
