"""Private linear models and boosted trees on public data, against their targets: AUC, R², log loss and CPU time.

    python -m benchmarks.learn --data FOLDER [--only adult,california] [--epsilons 0.1,1,8] [--runs 5]
        [--basis gam,linear,trees] [--large]
    python -m benchmarks.learn --data FOLDER --unlabelled        clusters, components and naive Bayes

FOLDER has adult_train.csv, adult_test.csv and adult.names (UCI Adult), california_housing.csv, winequality_white.csv,
acs_nist_ma2018.csv with acs_nist_data_dictionary.json, and nyc_taxis_2019_sample.csv, as their publishers have them. δ
is 1e-5, and each row is a person who is there or not; one public rule chooses everything else. Amounts of a wide range
are read by their logarithm; bounds are not read from the data. Numbers are medians of `--runs` fits. `--large` fits
1,000,000 rows of 12 columns.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans as Plain
from sklearn.metrics import log_loss, roc_auc_score

from discreet.catalog.schema import Range, Values
from discreet.learn import (
    PCA,
    BoostedTrees,
    BoostedTreesRegressor,
    GaussianNB,
    KMeans,
    LinearRegression,
    LogisticRegression,
)

DELTA = "1e-5"
EPSILONS = (0.1, 0.5, 1.0, 3.0, 8.0)


class Split(NamedTuple):
    """A data set: what is declared, and rows to fit and to test."""

    bounds: Mapping[str, Any]
    X: pd.DataFrame
    y: Any
    test: pd.DataFrame
    truth: Any
    target: tuple[float, float] | None = None


class Goal(NamedTuple):
    """What is wanted of a model of a data set: its basis, or "trees", and the least score at each ε."""

    data: str
    basis: str
    least: Mapping[float, float]


GOALS = (
    Goal("adult", "gam", dict(zip(EPSILONS, (0.890, 0.907, 0.909, 0.910, 0.910), strict=True))),
    Goal("adult", "linear", dict(zip(EPSILONS, (0.882, 0.895, 0.897, 0.8975, 0.8975), strict=True))),
    Goal("adult", "trees", dict(zip(EPSILONS, (0.8581, 0.8771, 0.904, 0.905, 0.905), strict=True))),
    Goal("california", "gam", dict(zip(EPSILONS, (0.58, 0.68, 0.695, 0.70, 0.70), strict=True))),
    Goal("california", "linear", dict(zip(EPSILONS, (0.58, 0.63, 0.635, 0.637, 0.637), strict=True))),
    Goal("dear", "gam", {0.1: 0.88, 1.0: 0.92, 8.0: 0.925}),
    Goal("wine", "gam", {0.1: 0.71, 1.0: 0.80, 8.0: 0.81}),
    Goal("acs", "gam", {0.1: 0.79, 1.0: 0.84, 8.0: 0.855}),
    Goal("taxis", "gam", {1.0: 0.58, 8.0: 0.605}),
)


def read(frame: pd.DataFrame, declared: Mapping[str, Any]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the declared columns, wide amounts by their logarithm, and their bounds."""
    found: dict[str, Any] = {}
    bounds: dict[str, Any] = {}
    for name, fact in declared.items():
        if isinstance(fact, Values):
            found[name], bounds[name] = frame[name].astype(str), fact
            continue
        low, high = fact
        cells = pd.to_numeric(frame[name], errors="coerce").to_numpy(np.float64)
        if low >= 0 and high > 1000:
            cells, low, high = np.log1p(np.clip(cells - low, 0, None)), 0.0, float(np.log1p(high - low))
        found[name], bounds[name] = cells, Range(low, high)
    return pd.DataFrame(found), bounds


def split(frame: pd.DataFrame, declared: Mapping[str, Any], y: Any, target: Any = None) -> Split:
    """Return four fifths to fit, and one to test."""
    X, bounds = read(frame, declared)
    order = np.random.default_rng(1).permutation(len(X))
    k = int(0.8 * len(X))
    first, last = order[:k], order[k:]
    y = np.asarray(y)
    return Split(bounds, X.iloc[first], y[first], X.iloc[last], y[last], target)


def adult(folder: Path) -> Split:
    """Return UCI Adult, as it was split by its publishers."""
    names = [
        *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
        *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
    ]
    declared: dict[str, Any] = {"age": (17, 90), "education-num": (1, 16), "capital-gain": (0, 99999)}
    declared |= {"capital-loss": (0, 4356), "hours-per-week": (1, 99)}
    for line in (folder / "adult.names").read_text().splitlines():
        name, _, values = line.partition(":")
        if name in {"workclass", "marital-status", "occupation", "relationship", "race", "sex", "native-country"}:
            declared[name] = Values(*(v.strip(" .") for v in values.split(",")), "?")
    parts: list[Any] = []
    for file in ("adult_train.csv", "adult_test.csv"):
        frame = pd.read_csv(folder / file, header=None, names=names, skipinitialspace=True)
        X, bounds = read(frame, declared)
        parts += [X, frame["income"].str.startswith(">50K").to_numpy()]
    return Split(bounds, *parts)


HOUSES: Mapping[str, Any] = {
    "longitude": (-125, -114),
    "latitude": (32, 42),
    "housing_median_age": (0, 100),
    "total_rooms": (0, 100000),
    "total_bedrooms": (0, 20000),
    "population": (0, 100000),
    "households": (0, 20000),
    "median_income": (0, 20),
    "ocean_proximity": Values("<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN"),
}


def california(folder: Path) -> Split:
    """Return prices of houses in California."""
    frame = pd.read_csv(folder / "california_housing.csv")
    return split(frame, HOUSES, frame["median_house_value"], (0, 500000))


def dear(folder: Path) -> Split:
    """Return whether these are above 200,000."""
    frame = pd.read_csv(folder / "california_housing.csv")
    return split(frame, HOUSES, frame["median_house_value"] > 200000)


def wine(folder: Path) -> Split:
    """Return whether a white wine is of quality 6 or above."""
    ends = ((0, 20), (0, 2), (0, 2), (0, 100), (0, 0.5), (0, 300), (0, 500), (0.98, 1.04), (2.5, 4.5), (0, 2), (5, 16))
    frame = pd.read_csv(folder / "winequality_white.csv", header=None).rename(columns=str)
    return split(frame, {str(i): pair for i, pair in enumerate(ends)}, frame["11"] >= 6)


def acs(folder: Path) -> Split:
    """Return whether an adult of Massachusetts has an income above 50,000."""
    frame = pd.read_csv(folder / "acs_nist_ma2018.csv")
    frame = frame[pd.to_numeric(frame["AGEP"], errors="coerce") >= 18]
    told = json.loads((folder / "acs_nist_data_dictionary.json").read_text())
    names = [
        "SEX",
        "MSP",
        "HISP",
        "RAC1P",
        "NOC",
        "NPF",
        "HOUSING_TYPE",
        "OWN_RENT",
        "INDP_CAT",
        "EDU",
        "DVET",
        "DEYE",
        "DREM",
    ]
    declared: dict[str, Any] = {"AGEP": (0, 99)}
    for name in (n for n in names if n in frame):
        listed = (told.get(name) or {}).get("values") or {}
        declared[name] = Values(*(map(str, listed) if listed else [*map(str, range(20)), "N"]))
    return split(frame, declared, pd.to_numeric(frame["PINCP"], errors="coerce") > 50000)


def taxis(folder: Path) -> Split:
    """Return whether a taxi was paid by card."""
    frame = pd.read_csv(folder / "nyc_taxis_2019_sample.csv")
    moment = pd.to_datetime(frame["pickup"])
    frame = frame.assign(hour=moment.dt.hour, day=moment.dt.dayofweek)
    boroughs = Values("Manhattan", "Queens", "Brooklyn", "Bronx", "Staten Island")
    declared = {"hour": (0, 24), "day": (0, 7), "distance": (0, 50), "passengers": (0, 8)}
    listed = {"color": Values("yellow", "green"), "pickup_borough": boroughs, "dropoff_borough": boroughs}
    return split(frame, {**declared, **listed}, frame["payment"] == "credit card")


DATA: Mapping[str, Callable[[Path], Split]] = {
    function.__name__: function for function in (adult, california, dear, wine, acs, taxis)
}


def measure(data: Split, basis: str, epsilon: float) -> dict[str, float]:
    """Return what one fit reaches, and its CPU seconds."""
    given: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "bounds": data.bounds}
    number, label = (
        (BoostedTreesRegressor, BoostedTrees) if basis == "trees" else (LinearRegression, LogisticRegression)
    )
    given |= {} if basis == "trees" else {"basis": basis}
    start = time.process_time()
    if data.target is not None:
        model: Any = number(**given, target=data.target).fit(data.X, data.y)
        took = time.process_time() - start
        return {"score": model.score(data.test, data.truth), "cpu": took}
    model = label(**given, classes=[False, True]).fit(data.X, data.y)
    took = time.process_time() - start
    p = model.predict_proba(data.test)[:, 1]
    apart = abs(float(p.mean() - np.mean(data.truth)))
    return {"score": roc_auc_score(data.truth, p), "log loss": log_loss(data.truth, p), "apart": apart, "cpu": took}


def unlabelled(folder: Path, runs: int) -> None:
    """Measure clusters, components and naive Bayes, and print a line for each."""
    frame = pd.read_csv(folder / "california_housing.csv")
    numbers = {name: fact for name, fact in HOUSES.items() if isinstance(fact, tuple)}
    wide = frame[list(numbers)].dropna()
    logs, ends = read(wide, numbers)
    raw = {name: Range(*pair) for name, pair in numbers.items()}
    given: dict[str, Any] = {"epsilon": 1, "delta": DELTA}
    names = ("longitude × latitude", "eight raw columns", "their logarithms")
    columns = ((wide[["longitude", "latitude"]], raw, 1.3), (wide, raw, 1.5), (logs, ends, 1.5))
    for (X, bounds, most), name in zip(columns, names, strict=True):
        own = {str(column): bounds[str(column)] for column in X}
        plain = Plain(8, n_init=5, random_state=0).fit(X.to_numpy()).score(X.to_numpy())
        costs = [KMeans(8, **given, bounds=own).fit(X).score(X) / plain for _ in range(runs)]
        print(f"KMeans, {name}: {statistics.median(costs):.3f} of at most {most}", flush=True)
    covariance = np.cov(wide.to_numpy().T)
    top = np.linalg.eigvalsh(covariance)[-3:].sum()
    axes = [PCA(3, **given, bounds=raw).fit(wide).components_ for _ in range(runs)]
    held = statistics.median(float(np.trace(v @ covariance @ v.T)) / top for v in axes)
    print(f"PCA, eight raw columns: {held:.4f} of the variance of the top 3, at least 0.99", flush=True)
    data = adult(folder)
    for epsilon, least in ((0.1, 0.81), (1.0, 0.83), (8.0, 0.835)):
        how: dict[str, Any] = {**given, "epsilon": epsilon, "bounds": data.bounds, "classes": [False, True]}
        fits = [GaussianNB(**how).fit(data.X, data.y) for _ in range(runs)]
        found = statistics.median(roc_auc_score(data.truth, m.predict_proba(data.test)[:, 1]) for m in fits)
        print(f"GaussianNB, adult, ε = {epsilon:g}: AUC {found:.4f}, at least {least}", flush=True)


def large() -> None:
    """Fit 1,000,000 rows of 12 columns, and print CPU seconds and peak memory."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 1, (1_000_000, 12))
    y = rng.uniform(0, 1, len(X)) < X[:, 0]
    start = time.process_time()
    LogisticRegression(epsilon=1, delta=DELTA, bounds=(0, 1), classes=[False, True], basis="gam").fit(X, y)
    took, peak = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"1,000,000 × 12, gam: {took:.0f} CPU-s of 120, peak {peak:.0f} MB of 1024")


def main() -> None:
    """Measure and print a line for each model and ε."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", default=",".join(DATA))
    parser.add_argument("--epsilons", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--unlabelled", action="store_true")
    parser.add_argument("--basis", default="gam,linear,trees")
    asked = parser.parse_args()
    if asked.large:
        large()
    if asked.data is None:
        return
    if asked.unlabelled:
        unlabelled(asked.data, asked.runs)
        return
    epsilons = [float(e) for e in asked.epsilons.split(",")]
    print("| data | basis | ε | median | wanted | lowest | log loss | mean p − rate | CPU-s |  |\n|" + "---|" * 10)
    for goal in (g for g in GOALS if g.data in asked.only.split(",") and g.basis in asked.basis.split(",")):
        data = DATA[goal.data](asked.data)
        for epsilon in (e for e in goal.least if e in epsilons):
            runs = [measure(data, goal.basis, epsilon) for _ in range(asked.runs)]
            middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
            lowest, least = min(run["score"] for run in runs), goal.least[epsilon]
            shown = [f"{middle[name]:.4f}" if name in middle else "" for name in ("log loss", "apart")]
            met = "met" if middle["score"] >= least else "NOT MET"
            cells = [goal.data, goal.basis, f"{epsilon:g}", f"{middle['score']:.4f}", f"{least:g}", f"{lowest:.4f}"]
            print("| " + " | ".join([*cells, *shown, f"{middle['cpu']:.2f}", met]) + " |", flush=True)


if __name__ == "__main__":
    main()
