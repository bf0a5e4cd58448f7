"""A memoised answer is drawn once: over calls, restarts, processes and crashes."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.errors import InvalidParameter, LedgerCorrupt, LedgerError
from discreet.local import Hadamard, Memoised, RandomizedResponse, Rappor, SubsetSelection, UnaryEncoding, durable
from discreet.local.memoised import fingerprint

WIDE = RandomizedResponse(1 << 40, epsilon=1)
"""Two draws of it agree with a chance of 2^−40 or so."""


def test_a_value_has_one_report_for_ever(tmp_path: Path) -> None:
    first = Memoised(WIDE, tmp_path / "answers")
    report = first.randomize(7)
    assert {first.randomize(7) for _ in range(20)} == {report}
    assert Memoised(WIDE, tmp_path / "answers").randomize(7) == report, "a restart draws anew"
    other = first.randomize(8)
    assert other != report == first.randomize(7)
    assert first.randomize(8) == other and first.spent == 2
    assert Memoised(WIDE, tmp_path / "elsewhere").randomize(7) != report  # the test above has power


def test_without_a_path_the_answers_live_as_long_as_the_object() -> None:
    daily = Memoised(WIDE)
    assert not daily.knows(3) and daily.spent == 0
    assert daily.randomize(3) == daily.randomize(3.0) == daily.randomize(np.int64(3))
    assert daily.knows(3) and daily.spent == 1
    assert Memoised(WIDE).randomize(3) != daily.randomize(3)


@pytest.mark.parametrize(
    "randomizer",
    [
        RandomizedResponse(["a", "b"], epsilon=1),
        UnaryEncoding(["a", "b", "c"], epsilon=1),
        SubsetSelection(["a", "b", "c", "d", "e"], epsilon="0.3"),
        Hadamard(["a", "b", "c"], epsilon=1),
        Rappor(epsilon=1),
    ],
    ids=lambda r: type(r).__name__,
)
def test_every_kind_of_report_survives_its_file(randomizer: Any, tmp_path: Path) -> None:
    report = Memoised(randomizer, tmp_path / "answers").randomize("b")
    again = Memoised(randomizer, tmp_path / "answers").randomize("b")
    assert type(again) is type(report) and np.array_equal(again, report)
    assert getattr(again, "dtype", None) == getattr(report, "dtype", None)
    domain = ["a", "b"]
    assert Memoised(randomizer).estimate([report, again], domain=domain).users == 2
    assert Memoised(randomizer).error(100) == randomizer.error(100)


def test_a_file_of_answers_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    path.with_name("answers.new").touch(mode=0o666)  # left by a crash, or by somebody else
    Memoised(WIDE, path).randomize(7)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.with_name("answers.lock").stat().st_mode) == 0o600


def test_other_parameters_are_another_question(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    kinds = [
        RandomizedResponse(100, epsilon=1),
        RandomizedResponse(100, epsilon=2),
        RandomizedResponse(list(range(101)), epsilon=1),
        RandomizedResponse(list(range(99, -1, -1)), epsilon=1),
        UnaryEncoding(100, epsilon=1),
        UnaryEncoding(100, epsilon=1, variant="symmetric"),
    ]
    assert len({fingerprint(kind) for kind in kinds}) == len(kinds)
    for kind in kinds:
        assert not Memoised(kind, path).knows(5)
        Memoised(kind, path).randomize(5)
    assert all(Memoised(kind, path).knows(5) and Memoised(kind, path).spent == kind.epsilon for kind in kinds)


def test_values_outside_of_the_domain_share_an_answer(tmp_path: Path) -> None:
    daily = Memoised(RandomizedResponse(3, epsilon=1), tmp_path / "answers")
    daily.randomize("?")
    assert daily.knows("!") and not daily.knows(2) and daily.spent == 1


def test_a_report_leaves_only_after_its_answer_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daily = Memoised(WIDE, tmp_path / "answers")
    report = daily.randomize(1)
    for step in ("os.write", "os.fsync", "os.open"):
        with monkeypatch.context() as broken:

            def fails(*args: object, **kwargs: object) -> int:
                raise OSError(28, "No space left on device")

            broken.setattr(step, fails)
            with pytest.raises(LedgerError, match="No space left"):
                daily.randomize(2)
        assert daily.randomize(1) == report
    assert daily.randomize(2) == Memoised(WIDE, tmp_path / "answers").randomize(2)


def test_a_damaged_file_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    Memoised(WIDE, path).randomize(1)
    whole = path.read_bytes()
    stored = json.loads(whole)
    stored["answers"][next(iter(stored["answers"]))] += 1
    for bad in (b"", whole[:-3], b"[]", b"{}", b"[" * 100_000, json.dumps(stored).encode()):
        path.write_bytes(bad)
        with pytest.raises(LedgerCorrupt, match="damaged"):
            Memoised(WIDE, path).randomize(1)
        assert path.read_bytes() == bad


def _asks(path: str, n: int) -> list[int]:
    daily = Memoised(WIDE, path)
    return [daily.randomize(i % 5) for i in range(n)]


def test_processes_agree_on_the_answers(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn").Pool(3) as pool:
        found = pool.starmap(_asks, [(str(tmp_path / "answers"), 25)] * 3)
    assert found[0] == found[1] == found[2]


def test_values_of_several_devices_are_refused(tmp_path: Path) -> None:
    for values in ([1, 2], np.array([1, 2])):
        for call in (Memoised(WIDE).randomize, Memoised(WIDE, tmp_path / "answers").knows):
            with pytest.raises(InvalidParameter, match="one device"):
                call(values)
    for wrong in (Memoised(WIDE), 7):
        with pytest.raises(InvalidParameter, match="randomizer"):
            Memoised(wrong)  # type: ignore[arg-type]


def test_it_costs_the_lifetime_of_its_randomizer_and_explains_that() -> None:
    assert Memoised(RandomizedResponse(epsilon=2)).epsilon == 2
    daily = Memoised(Rappor(epsilon=1, lifetime=5))
    assert daily.epsilon == daily.lifetime == 5 and daily.loss.epsilon(0) == 5
    title, *steps = daily.explain().splitlines()
    assert title == repr(daily) and "5-DP" in steps[0] and "Not protected" in steps[-1]
    daily.randomize("a")
    assert daily.spent == Fraction(5)


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    if not hasattr(os, "O_NOFOLLOW"):
        pytest.skip("links are no danger here")
    (tmp_path / "answers.lock").symlink_to(tmp_path / "target")
    with pytest.raises(LedgerError, match="cannot be used"), durable.exclusive(str(tmp_path / "answers.lock")):
        pass
