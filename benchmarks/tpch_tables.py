"""The TPC-H tables as Parquet files under benchmarks/results, made once by DuckDB's generator.

python -m benchmarks.peers tpch            the generator, in an environment of its own
python -m benchmarks.tpch_tables 1         the tables at scale 1
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks import peers
from benchmarks.runner import RESULTS

TABLES = ("customer", "orders", "lineitem", "part", "supplier", "partsupp", "nation", "region")
_GENERATE = """
import sys, duckdb, duckdb_extensions
duckdb_extensions.import_extension("tpch")
db = duckdb.connect()
db.execute("LOAD tpch")
db.execute(f"CALL dbgen(sf={float(sys.argv[1])})")
for name in sys.argv[3:]:
    db.execute(f"COPY {name} TO '{sys.argv[2]}/{name}.parquet'")
"""


def tables(scale: float) -> dict[str, Path]:
    """Name → file, made when they are not there yet.

    Raises:
        RuntimeError: the generator's environment was not made.
    """
    folder = RESULTS / f"tpch-{scale:g}"
    files = {name: folder / f"{name}.parquet" for name in TABLES}
    if not all(f.exists() for f in files.values()):
        python = peers.python_of("tpch")
        if python is None:
            raise RuntimeError("make the generator's environment first: python -m benchmarks.peers tpch")
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([str(python), "-c", _GENERATE, str(scale), str(folder), *TABLES], check=True)
    return files


if __name__ == "__main__":
    for name, file in tables(float(sys.argv[1])).items():
        print(f"{name}: {file}")
