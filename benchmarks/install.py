"""What installing costs: megabytes in a fresh environment, and CPU seconds of `import discreet`.

    python -m benchmarks.install

Makes a virtual environment in a temporary folder and installs this checkout without extras, as a user would.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.runner import ROOT, Claim, save

# Runs in the fresh environment: bytes per distribution, as its RECORD lists them.
_SIZES = """
import json, os
from importlib import metadata
def size(d):
    return sum(os.path.getsize(p) for f in d.files or () if os.path.exists(p := d.locate_file(f)))
print(json.dumps({d.metadata["Name"]: size(d) for d in metadata.distributions()}))
"""
_IMPORT = "import time; start = time.process_time(); import discreet; print(time.process_time() - start)"
_SHIPPED_WITH_VENV = ("pip", "setuptools")


def sizes(python: Path) -> dict[str, float]:
    """Megabytes of each installed distribution, without what every virtual environment has."""
    out = subprocess.run([str(python), "-c", _SIZES], check=True, capture_output=True, text=True).stdout
    found: dict[str, int] = json.loads(out)
    return {name: size / 1e6 for name, size in found.items() if name not in _SHIPPED_WITH_VENV}


def import_seconds(python: Path, *, rounds: int = 15) -> list[float]:
    """CPU seconds of `import discreet` in new processes; the first, which compiles, is left out."""
    runs = [
        subprocess.run([str(python), "-c", _IMPORT], check=True, capture_output=True, text=True)
        for _ in range(rounds + 1)
    ]
    return [float(run.stdout) for run in runs[1:]]


def main() -> None:
    """Installs, measures, prints and writes the JSON."""
    with tempfile.TemporaryDirectory() as folder:
        venv = Path(folder) / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        python = venv / "bin" / "python"
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", str(ROOT)], check=True)
        by_name = sizes(python)
        seconds = import_seconds(python)
    for name, size in sorted(by_name.items(), key=lambda item: -item[1]):
        print(f"{name:<16}{size:8.1f} MB")
    spread = f"({min(seconds):.3f} – {max(seconds):.3f})"
    print(f"{'import discreet':<16}{statistics.median(seconds):8.3f} CPU s {spread}")
    claims = [
        Claim("installed, with dependencies", sum(by_name.values()), 340, "MB"),
        Claim("import discreet", statistics.median(seconds), 0.3, "CPU s"),
    ]
    print(*claims, sep="\n")
    print(save("install", {}, claims))


if __name__ == "__main__":
    main()
