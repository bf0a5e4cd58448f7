"""Altair, which is loaded when the first picture is drawn."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, TypeAlias

from discreet.errors import MissingExtra
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


def inline(values: Values) -> alt.InlineData:
    """Data that travel inside the picture; nothing is ever fetched."""
    return alt.InlineData(values=values)


def written(text: object) -> str:
    """A text as every picture shows it: control characters written out, and nothing that could be a tag.

    A page of HTML, or a notebook, holds the rows inside a script, and `</script>` in a group's name would end it: an
    unseen space of no width stands after each `<`.
    """
    return visible(str(text)).replace("<", "<\u200b")
