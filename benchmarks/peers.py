"""Peers, each in its own virtual environment under benchmarks/.venvs; all optional.

    python -m benchmarks.peers opendp diffprivlib

makes the environments. A benchmark that finds none of a peer leaves that peer out and says so.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

VENVS = Path(__file__).resolve().parent / ".venvs"

# Pinned, because a ratio to a peer is a statement about one version of it.
PEERS: dict[str, tuple[str, ...]] = {
    "opendp": ("opendp[polars]==0.16.0", "numpy"),
    "diffprivlib": ("diffprivlib==0.6.6", "scikit-learn<1.7", "duckdb", "numpy"),
    "pipelinedp": ("pipeline-dp==0.3.1", "pyarrow"),
    "smartnoise": ("smartnoise-sql==1.0.10", "pyarrow"),
    "tumult-analytics": ("tmlt.analytics==0.21.0",),
    "dp-accounting": ("dp-accounting==0.6.0",),
    "prv-accountant": ("prv-accountant==0.2.0",),
    "opacus": ("--no-deps", "opacus==1.6.0", "numpy", "scipy"),  # its accountants need no torch
    "opacus-training": ("torch==2.13.0", "opacus==1.6.0", "numpy", "scipy"),
    "opake-accounting": ("opake-accounting==0.16.1",),
    "gdpnum": ("gdpnum==0.1.2",),
    "dp-accelerator": ("dp-accelerator==0.1.0",),
    "autodp": ("autodp==0.2.3.1",),
    "python-dp": ("python-dp==1.1.5", "numpy"),
    "multi-freq-ldpy": ("multi-freq-ldpy==0.2.5",),
    "tumult": ("tmlt-core==0.20.0", "numpy"),
    "tpch": ("duckdb==1.5.5", "duckdb-extensions==1.5.5", "duckdb-extension-tpch==1.5.5"),
}


def python_of(peer: str) -> Path | None:
    """The interpreter of a peer's environment, or None when it was not made."""
    python = VENVS / peer / "bin" / "python"
    return python if python.exists() else None


def make(peer: str) -> None:
    """Makes a peer's environment anew."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENVS / peer)], check=True)
    subprocess.run([str(VENVS / peer / "bin" / "pip"), "install", "--quiet", *PEERS[peer]], check=True)


def main() -> None:
    """Makes the environments named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="+", choices=sorted(PEERS))
    for peer in parser.parse_args().peers:
        make(peer)
        print(f"{peer}: {VENVS / peer}")


if __name__ == "__main__":
    main()
