"""Reports: all of an audit is in them, and nothing of it becomes a command or a tag."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from discreet.audit import Audit, Chance, Claim, Probe, Tradeoff, Tried, Witness
from discreet.audit.finding import Bits
from discreet.audit.reports import shown
from discreet.audit.result import Power

ALPHA = np.linspace(0, 1, 501)


POWER = Power((1.0, 0.0), 0.5, 4e-4, 80_000, 100_000, 1000, 1e-4)


def audit(event: str = "output > 0.5", verdict: str = "violated", power: Power | None = POWER) -> Audit:
    claim = Claim.of(1)
    return Audit(
        name="module:noisy",
        claim=claim,
        verdict=verdict,
        error=1e-3,
        epsilon_lower=1.93,
        delta_lower=0.21,
        power=power,
        witness=Witness([0], [1], event, Chance(731, 1000, 0.7, 0.76), Chance(105, 1000, 0.08, 0.13), 1.68),
        tradeoff=Tradeoff(ALPHA, (1 - ALPHA) ** 4, np.minimum((1 - ALPHA) ** 4 + 0.03, 1), claim.tradeoff(ALPHA)),
        samples=20_000,
        seconds=0.31,
        tried=tuple(Tried(f"pair {i}", i / 10, 1000) for i in range(12)),
        probes=(Probe("reachable support", "suspicious", "Half of the outputs are odd.", {"p": np.float64(0.5)}),),
        notes=("It mutates its input.",),
    )


class Tags(HTMLParser):
    """Checks that tags are closed in order, and collects them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_text_says_the_verdict_first_and_then_what_it_rests_on() -> None:
    text = str(audit())
    assert text.startswith("module:noisy: VIOLATED\n")
    for part in ("ε ≥ 1.93", "output > 0.5", "731 of 1,000", "pair 0", "and 4 more", "suspicious"):
        assert part in text
    assert "Note: It mutates its input." in text
    assert "power" not in text, "what else would have been found is of no interest where something was"


def test_a_claim_that_was_not_refuted_comes_with_the_violations_that_were_not_seen() -> None:
    text = str(replace(audit(verdict="consistent"), limit=20.0))
    epsilon, delta = POWER.epsilon, POWER.delta
    assert f"power    ε = {epsilon:.4g} at δ = 0 or δ = {delta:.4g} at ε = 1 would have been found" in text
    assert f"a δ of {delta / 2:.4g} instead of 0 would need about " in text
    assert f"an ε of {(1 + epsilon) / 2:.4g} instead of 1 would need about " in text
    assert "samples of each neighbour, " in text
    assert "20,000 samples in 0.31 s; about 20 s were allowed" in text
    assert "instead of 0 would need" in audit(verdict="consistent").to_html()
    few = replace(POWER, tested=0)
    assert "nothing, with so few samples, would have been found" in str(audit(verdict="consistent", power=few))


@pytest.mark.parametrize(
    ("verdict", "floats", "cause", "why"),
    [
        ("violated", "keep", "law", " in law (scale or sensitivity)"),
        ("violated", "ignore", "law", " in law (scale or sensitivity)"),
        ("violated", "keep", "bits", " by floating-point bits"),
        ("violated", "keep", None, ""),
        ("violated", None, "law", ""),
        ("consistent", "keep", None, ""),
        ("consistent", "ignore", None, " in law (floats ignored)"),
        ("consistent", None, None, ""),
    ],
)
def test_every_report_says_what_was_audited_and_what_refutes_the_claim(
    verdict: str, floats: Bits | None, cause: str | None, why: str
) -> None:
    found = replace(audit(verdict=verdict), floats=floats, cause=cause)
    assert str(found).startswith(f"module:noisy: {verdict.upper()}{why}\n")
    assert f">{verdict}{why}<" in found.to_html()
    assert (found.to_json()["floats"], found.to_json()["cause"]) == (floats, cause)
    words = {"keep": "then with all bits (1/4)", "ignore": "ignored: they were read on a grid", None: ""}
    for text in (str(found), found.to_html()):
        assert words[floats] in text and ("floats" in text) is (floats is not None)
        assert ("power" in text) is (verdict == "consistent" or cause == "bits")


def test_json_has_all_of_it_in_jsons_own_types() -> None:
    kept = json.loads(json.dumps(audit().to_json(), allow_nan=False))
    assert kept["verdict"] == "violated" and kept["epsilon_lower"] == 1.93 and kept["limit"] is None
    assert kept["power"]["epsilon"] == POWER.epsilon and kept["power"]["unseen"][0]["delta"] == POWER.delta / 2
    assert len(kept["tried"]) == 12 and len(kept["tradeoff"]["alpha"]) == 501
    assert kept["witness"]["under_x"] == {"hits": 731, "samples": 1000, "low": 0.7, "high": 0.76}
    assert kept["probes"][0]["details"] == {"p": 0.5}


def test_the_page_is_whole_and_needs_nothing_from_outside() -> None:
    page = audit().to_html()
    tags = Tags()
    tags.feed(page)
    assert tags.open == [] and "svg" in tags.seen and "table" in tags.seen
    assert not {"script", "link", "img", "iframe"} & set(tags.seen)
    assert "http" not in page


def test_an_output_cannot_become_a_tag_or_a_command_of_a_terminal() -> None:
    hostile = audit(event="output is '<script>alert(1)</script>' or '\x1b[31m'")
    page = hostile.to_html()
    assert "<script" not in page and "&lt;script&gt;" in page and "\x1b" not in page
    assert "\x1b" not in str(hostile)


def test_an_input_is_shown_on_one_line_whatever_it_is() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert len(shown(list(range(10_000)))) == 160
    assert shown(np.arange(3)) == "[0, 1, 2]"
    assert "\n" not in shown(np.eye(50))
    assert shown(Broken()) == "<Broken without a text: RuntimeError>"
