"""Settings of the documentation site, which `python -m docs.site` builds."""

from __future__ import annotations

import inspect
import re
from typing import Any

import discreet

project = "discreet"
author = "The discreet developers"
copyright = author  # noqa: A001  # the name that Sphinx reads
version = release = discreet.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
myst_heading_anchors = 3
default_role = "code"
suppress_warnings = [
    "misc.highlighting_failure",  # a block shows a part of a program now and then
    "ref.python",  # two rooms may have classes of one name
]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "mixed"
maximum_signature_line_length = 90
napoleon_custom_sections = ["Guarantee"]
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "pydata_sphinx_theme"
html_title = "discreet"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "show_prev_next": False,
    "search_as_you_type": True,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_nav_level": 1,
}
html_sidebars = {"index": []}


_PIECE = re.compile(r"``[^`]*``|(?P<code>`[^`]+`)(?P<letter>(?=\w))?|<?https?://[^\s>]*[^\s>.,;)]>?|(?P<mark>[*|_\\])")


def in_restructured_text(text: str) -> str:
    """Return a docstring's text, written with Markdown's code spans, so that reStructuredText shows the same."""

    def turned(match: re.Match[str]) -> str:
        if match["mark"]:
            return f"\\{match[0]}"
        if match["code"]:
            return f"`{match['code']}`" + ("" if match["letter"] is None else "\\ ")
        return match[0].strip("<>")

    return _PIECE.sub(turned, text)


def _convert(app: Any, what: str, name: str, thing: object, options: Any, lines: list[str]) -> None:
    literal = False
    for i, line in enumerate(lines):
        literal = (literal and (not line.strip() or line.startswith(" "))) or line.rstrip().endswith("::")
        if not literal and not line.lstrip().startswith((">>>", "...", ":", "..")):
            lines[i] = in_restructured_text(line)
        elif line.lstrip().startswith(":"):
            field, colon, rest = line.lstrip()[1:].partition(":")
            lines[i] = f"{line[: len(line) - len(line.lstrip())]}:{field}{colon}{in_restructured_text(rest)}"


def _skip(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out members whose docstring is Python's own."""
    if skip or name.startswith("_"):
        return None
    return True if not inspect.getdoc(thing) else None


def setup(app: Any) -> None:
    """Connect what docstrings need."""
    app.connect("autodoc-process-docstring", _convert)
    app.connect("autodoc-skip-member", _skip)
