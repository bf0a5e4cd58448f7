"""The one source of randomness: uniform, never repeated by a thread, a fork or a copy, and never seeded."""

from __future__ import annotations

import copy
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from discreet.noise import entropy
from discreet.noise.entropy import SystemEntropy, bits, words16, words32, words64
from discreet.testing.replay import ReplayEntropy

ALARM = 1e-9

pytestmark = pytest.mark.unseeded


def test_every_length_comes_out_as_asked_on_both_sides_of_the_buffer() -> None:
    rng = SystemEntropy()
    for n in (0, 1, 7, 511, 512, 513, 4095, 4096, 4097, 1 << 17):
        drawn = rng.bytes(n)
        assert type(drawn) is bytes
        assert len(drawn) == n


def test_a_negative_length_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        SystemEntropy().bytes(-1)


def test_requests_beyond_one_call_of_the_cipher_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entropy, "_CHUNK", 1000)
    drawn = SystemEntropy().bytes(2500)
    assert len(drawn) == 2500
    assert len({drawn[:500], drawn[500:1000], drawn[1000:1500], drawn[1500:2000], drawn[2000:]}) == 5


def test_nothing_is_handed_out_twice() -> None:
    rng = SystemEntropy()
    drawn = [rng.bytes(16) for _ in range(3000)] + [rng.bytes(1024)[:16] for _ in range(1000)]
    assert len(set(drawn)) == len(drawn)


def test_two_sources_differ() -> None:
    assert SystemEntropy().bytes(32) != SystemEntropy().bytes(32)


def test_bytes_are_erased_as_they_are_handed_out() -> None:
    rng = SystemEntropy()
    rng.bytes(100)
    (stream,) = rng._local.streams
    assert stream._buffer[:100] == bytes(100)
    assert any(stream._buffer[100:])


def test_the_key_changes_after_a_bounded_output(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = 0
    keyed = entropy._keyed

    def counted() -> object:
        nonlocal keys
        keys += 1
        return keyed()

    monkeypatch.setattr(entropy, "_keyed", counted)
    monkeypatch.setattr(entropy, "_REKEY", 10_000)
    rng = SystemEntropy()
    for _ in range(10):
        rng.bytes(4000)
    assert keys == 5  # two requests fit under one key


def test_the_system_is_asked_for_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    urandom = os.urandom

    def recorded(n: int) -> bytes:
        asked.append(n)
        return urandom(n)

    monkeypatch.setattr(os, "urandom", recorded)
    rng = SystemEntropy()
    rng.bytes(8)
    rng.bytes(8)
    assert asked == [32, 16]


def test_it_cannot_be_seeded_copied_pickled_or_looked_into() -> None:
    rng = SystemEntropy()
    with pytest.raises(TypeError):
        SystemEntropy(1)  # type: ignore[call-arg]  # the refusal is the point
    with pytest.raises(TypeError, match="copied or pickled"):
        pickle.dumps(rng)
    with pytest.raises(TypeError, match="copied or pickled"):
        copy.copy(rng)
    with pytest.raises(TypeError, match="copied or pickled"):
        copy.deepcopy(rng)
    assert repr(rng) == "SystemEntropy()"


def test_seeds_of_other_generators_do_not_matter() -> None:
    drawn = set()
    for _ in range(2):
        random.seed(1)
        np.random.seed(1)
        drawn |= {SystemEntropy().bytes(16)}
    assert len(drawn) == 2


def test_eight_threads_share_a_source_and_no_output() -> None:
    rng = SystemEntropy()
    results: list[list[bytes]] = []
    start = threading.Barrier(8)

    def draw() -> None:
        start.wait()
        results.append([rng.bytes(16) for _ in range(2000)])

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    drawn = [d for result in results for d in result]
    assert len(drawn) == 16_000
    assert len(set(drawn)) == 16_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("hook", [True, False], ids=["with the hook", "by the process id alone"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_parent_and_children_of_forks_differ(hook: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = SystemEntropy()
    rng.bytes(16)  # the buffer is full of bytes that a child must not hand out
    children = []
    for _ in range(2):
        read, write = os.pipe()
        before = entropy._forks
        child = os.fork()
        if child == 0:
            try:
                if not hook:
                    entropy._forks = before
                os.write(write, rng.bytes(400) + rng.bytes(1000))
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            children.append(pipe.read())
        os.waitpid(child, 0)
    streams = [rng.bytes(400) + rng.bytes(1000), *children]
    blocks = [s[i : i + 8] for s in streams for i in range(0, 1400, 8)]
    assert len(set(blocks)) == 3 * 175


def test_a_fork_in_the_middle_of_a_request_discards_what_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[bytes] = []
    take = entropy._Stream.take

    def forking(self: entropy._Stream, n: int) -> bytes:
        drawn.append(take(self, n))
        if len(drawn) == 1:
            monkeypatch.setattr(entropy, "_forks", entropy._forks + 1)
        return drawn[-1]

    monkeypatch.setattr(entropy._Stream, "take", forking)
    assert SystemEntropy().bytes(16) == drawn[1]
    assert len(drawn) == 2


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
def test_a_signal_handler_that_draws_gets_other_bytes() -> None:
    rng = SystemEntropy()
    seen: list[bytes] = []

    def handler(number: int, frame: object) -> None:
        seen.append(rng.bytes(16))

    previous = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0002)
        while len(seen) < 50:
            seen.append(rng.bytes(16))
            seen.extend(rng.bytes(16) for _ in range(100))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert len(set(seen)) == len(seen)


_PROGRAM = """
import multiprocessing, sys
from discreet.noise.entropy import SystemEntropy

shared = SystemEntropy()
before = shared.bytes(16)

def draw(_):
    return shared.bytes(16).hex()

if __name__ == "__main__":
    for method in sys.argv[1:]:
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(*pool.map(draw, range(20), chunksize=1), sep="\\n")
    print(shared.bytes(16).hex())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork here")
def test_worker_processes_started_in_any_way_differ(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), "fork", "forkserver", "spawn"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    drawn = done.stdout.split()
    assert len(drawn) == 61
    assert len(set(drawn)) == 61


def _accepts_uniform(data: bytes) -> bool:
    counts = np.bincount(np.frombuffer(data, dtype=np.uint8), minlength=256)
    return bool(stats.chisquare(counts).pvalue > ALARM)


@pytest.mark.parametrize("request_size", [37, 1 << 20])
def test_bytes_are_uniform_and_a_bias_of_a_thousandth_would_show(request_size: int) -> None:
    rng = SystemEntropy()
    length = 1 << 22 if request_size > 512 else 1 << 19
    data = b"".join(rng.bytes(request_size) for _ in range(-(-length // request_size)))
    assert _accepts_uniform(data)
    # one byte in 1024 (in 256, for the shorter sample) replaced by 0
    stride = 1024 if request_size > 512 else 256
    biased = np.frombuffer(data, dtype=np.uint8).copy()
    biased[::stride] = 0
    assert not _accepts_uniform(biased.tobytes())


def test_neighbouring_bits_are_independent() -> None:
    drawn = np.unpackbits(np.frombuffer(SystemEntropy().bytes(1 << 19), dtype=np.uint8)).astype(np.int64)
    for lag in (1, 7, 8, 64, 128):
        agree = int((drawn[lag:] == drawn[:-lag]).sum())
        assert stats.binomtest(agree, drawn.size - lag).pvalue > ALARM


def test_bits_takes_whole_bytes_and_keeps_the_high_bits() -> None:
    assert bits(ReplayEntropy(b""), 0) == 0
    assert bits(ReplayEntropy(b"\x80"), 1) == 1
    assert bits(ReplayEntropy(b"\x7f"), 1) == 0
    assert bits(ReplayEntropy(b"\x01\x02"), 16) == 0x0201
    assert bits(ReplayEntropy(b"\x01\x02"), 12) == 0x020
    assert {bits(ReplayEntropy(bytes([b])), 3) for b in range(256)} == set(range(8))


def test_words_are_little_endian_and_cannot_be_written_to() -> None:
    data = bytes(range(1, 17))
    assert words16(ReplayEntropy(data), 8)[0] == 0x0201
    assert words32(ReplayEntropy(data), 4)[1] == 0x08070605
    assert words64(ReplayEntropy(data), 2)[0] == 0x0807060504030201
    with pytest.raises(ValueError, match="read-only"):
        words64(ReplayEntropy(data), 2)[0] = 0
