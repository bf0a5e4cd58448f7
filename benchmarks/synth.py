"""Synthetic data of public data sets, against their targets: two-way distances, AUC of models, CPU time and memory.

    python -m benchmarks.synth --data FOLDER [--only adult,acs] [--epsilons 0.1,1,10] [--runs 5] [--even]
                               [--method mst]

FOLDER has adult_mbi.csv with adult_mbi_domain.json (Adult in codes, from ryan112358/mbi), and acs_nist_ma2018.csv with
acs_nist_data_dictionary.json. δ is 1e-5, each row is a person who is there or not, and one public rule chooses
everything else. Distances are total variation over all pairs of columns, to the rows that were given; models are
gradient boosted trees, tested on the fifth that was left out. `--even` measures all pairs alike instead. Numbers are
medians of `--runs` fits; memory is the peak of the process.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

import discreet as dp
from discreet.synth import AIM, MST, Adaptive, Independent, asked
from discreet.synth.recipe import AdaptiveSynthesis, Schedule

DELTA = "1e-5"


class Data(NamedTuple):
    """A data set in codes: what is declared, rows to make synthetic ones of, and rows to test on."""

    domain: Mapping[str, Any]
    train: pd.DataFrame
    test: pd.DataFrame
    label: str
    positive: Any
    least: Mapping[float, tuple[float, float]]
    """ε → the largest mean distance of pairs, and the least AUC."""


ACS = (
    *("SEX", "MSP", "HISP", "RAC1P", "NOC", "NPF", "HOUSING_TYPE", "OWN_RENT", "INDP_CAT", "EDU", "DVET", "DREM"),
    *("DPHY", "DEYE", "DEAR"),
)
"""Columns of the dictionary that are read beside age and label."""


class EvenSynthesis(AdaptiveSynthesis):
    """All pairs measured alike: what a choice of pairs is compared with."""

    @property
    def schedule(self) -> Schedule:
        """All pairs in one round."""
        return Schedule(1, len(self.candidates), 150, 300, chosen=False)


def adult(folder: Path) -> Data:
    """Return Adult in codes, four fifths to train."""
    sizes = json.loads((folder / "adult_mbi_domain.json").read_text())
    frame = pd.read_csv(folder / "adult_mbi.csv").astype("int64")[[*sizes]]
    order = np.random.RandomState(20260101).permutation(len(frame))
    k = int(len(frame) * 0.8)
    domain = {name: dp.Range(0, size - 1, integer=True) for name, size in sizes.items()}
    least = {0.1: (0.110, 0.850), 1.0: (0.0450, 0.895), 10.0: (0.0220, 0.900)}
    return Data(domain, frame.iloc[order[:k]], frame.iloc[order[k:]], "income>50K", 1, least)


def acs(folder: Path) -> Data:
    """Return adults of Massachusetts in 2018, in ages of five years, with whether their income is above 50,000."""
    frame = pd.read_csv(folder / "acs_nist_ma2018.csv", dtype=str)
    age, income = (pd.to_numeric(frame[name], errors="coerce") for name in ("AGEP", "PINCP"))
    told = json.loads((folder / "acs_nist_data_dictionary.json").read_text())
    rows: dict[str, Any] = {"AGEP": (age.fillna(0) // 5).astype("int64"), "rich": (income > 50000).astype("int64")}
    domain: dict[str, Any] = {"AGEP": dp.Range(3, 19, integer=True), "rich": dp.Range(0, 1, integer=True)}
    for name in ACS:
        listed = told[name]["values"] if name not in ("NOC", "NPF") else [*range(20), "N"]
        domain[name], rows[name] = dp.Values(*map(str, listed)), frame[name]
    kept = pd.DataFrame(rows)[age >= 18]
    order = np.random.RandomState(20260101).permutation(len(kept))
    k = int(len(kept) * 0.8)
    least = {1.0: (0.050, 0.80), 10.0: (0.020, 0.83)}
    return Data(domain, kept.iloc[order[:k]], kept.iloc[order[k:]], "rich", 1, least)


DATA: Mapping[str, Callable[[Path], Data]] = {function.__name__: function for function in (adult, acs)}


def codes(frame: pd.DataFrame, domain: Mapping[str, Any]) -> pd.DataFrame:
    """Return the cells of all values as whole numbers; what is NULL or undeclared is the last one."""
    found = {}
    for name, fact in domain.items():
        values = fact.values if isinstance(fact, dp.Values) else range(int(fact.low), int(fact.high) + 1)
        places = {value: i for i, value in enumerate(values)}
        found[name] = frame[name].map(places).fillna(len(places)).astype("int64").to_numpy()
    return pd.DataFrame(found)


def distance(a: pd.DataFrame, b: pd.DataFrame, names: tuple[str, ...]) -> float:
    """Return the total variation distance of two tables' shares of these columns."""
    shares = [frame.groupby(list(names)).size() / max(len(frame), 1) for frame in (a, b)]
    return float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


METHODS = {"adaptive": Adaptive, "independent": Independent, "mst": MST, "aim": AIM}


def measure(data: Data, epsilon: float, method: str) -> dict[str, float]:
    """Return what one synthetic data set reaches."""
    start = time.process_time()
    made = METHODS[method](epsilon=epsilon, delta=DELTA).fit(data.train, data.domain)
    sampled = made.sample().to_pandas()
    took = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    synthetic, train, test = (codes(frame, data.domain) for frame in (sampled, data.train, data.test))
    pairs = [distance(synthetic, train, pair) for pair in combinations(data.domain, 2)]
    X = [name for name in data.domain if name != data.label]
    goal = synthetic[data.label] == data.positive
    auc = 0.5
    if goal.nunique() == 2:
        model = HistGradientBoostingClassifier(random_state=0, max_iter=100).fit(synthetic[X], goal)
        auc = roc_auc_score(test[data.label] == data.positive, model.predict_proba(test[X])[:, 1])
    return {"distance": statistics.mean(pairs), "auc": auc, "cpu": took, "MB": memory}


def main() -> None:
    """Print a line for each data set and ε."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default="adult,acs")
    parser.add_argument("--epsilons", default="0.1,1,10")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--even", action="store_true")
    parser.add_argument("--method", default="adaptive", choices=[*METHODS])
    given = parser.parse_args()
    if given.even:
        vars(asked)["METHODS"] = {**asked.METHODS, "adaptive": EvenSynthesis}
    for name in given.only.split(","):
        data = DATA[name](given.data)
        for epsilon in map(float, given.epsilons.split(",")):
            runs = [measure(data, epsilon, given.method) for _ in range(given.runs)]
            found = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            goal = data.least.get(epsilon)
            wanted = "" if goal is None else f"  (≤ {goal[0]:.4f}, ≥ {goal[1]:.3f})"
            print(
                f"{name:6} ε = {epsilon:<4g} distance {found['distance']:.4f}  AUC {found['auc']:.3f}{wanted}  "
                f"{found['cpu']:.2f} CPU-s  {found['MB']:.0f} MB  (AUC {min(r['auc'] for r in runs):.3f} to "
                f"{max(r['auc'] for r in runs):.3f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
