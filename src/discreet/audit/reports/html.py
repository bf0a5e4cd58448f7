"""Parts of HTML pages of results, which need nothing from outside: style and picture are inside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from discreet.audit.finding import Tradeoff
from discreet.audit.reports.picture import ERRORS, svg
from discreet.table import visible

_STYLE = """
:root { color-scheme: light; --ink: #1d2733; --soft: #5b6875; --line: #dfe4ea; --bad: #b3261e; --good: #146c43; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); max-width: 54rem; margin: 2.5rem auto;
  padding: 0 1.2rem; }
h1 { font-size: 1.55rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.verdict { display: inline-block; padding: .1rem .7rem; border-radius: 1rem; color: #fff; font-weight: 600; }
.violated { background: var(--bad); } .consistent { background: var(--good); } .unclaimed { background: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.2rem; }
dt { color: var(--soft); } dd { margin: 0; }
table { border-collapse: collapse; font-size: .92rem; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--line); } th { color: var(--soft); font-weight: 600; }
code { background: #f3f5f7; padding: .05rem .3rem; border-radius: .25rem; overflow-wrap: anywhere; }
figure { margin: 1rem 0; } figcaption { color: var(--soft); font-size: .92rem; }
svg { max-width: 100%; height: auto; }
"""


def document(title: str, *parts: str) -> str:
    """A whole page around parts that are HTML already."""
    viewport = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{viewport}<title>{text(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{"".join(parts)}</body></html>\n'


def head(name: str, verdict: str | None, why: str = "") -> str:
    """Return the name, and the verdict where there is one, with what refutes the claim."""
    mark = (
        ""
        if verdict is None
        else f'<p><span class="verdict {text(verdict)}">{text(verdict + why)}</span></p>'
    )
    return f"<h1>{text(name)}</h1>{mark}"


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """What was claimed, found, done: pairs of a word and what it stands for."""
    return f"<dl>{''.join(f'<dt>{text(a)}</dt><dd>{text(b)}</dd>' for a, b in rows)}</dl>"


def notes(words: Sequence[str]) -> str:
    """What a reader should know, as a list under its own heading; nothing where there is nothing."""
    return "".join(
        ["<h2>Notes</h2><ul>", *(f"<li>{text(note)}</li>" for note in words), "</ul>"] if words else []
    )


def picture(tradeoff: Tradeoff, caption: str, errors: tuple[str, str] = ERRORS) -> str:
    """A trade-off with what it shows in words."""
    return f"<figure>{svg(tradeoff, errors)}<figcaption>{text(caption)}</figcaption></figure>"


def text(words: str) -> str:
    """Words in which nothing is a tag, or a command of a terminal."""
    return escape(visible(words))
