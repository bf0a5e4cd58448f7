"""Imports go only downwards, and packages of one level do not import each other."""

from __future__ import annotations

from benchmarks.house import cycles
from tests.house.tree import SRC, imports, module_of, name_of, sources

# From the ground up. A name stands for `discreet.<name>`; "discreet" is the package's own `__init__`.
LEVELS: tuple[set[str], ...] = (
    {"namespace"},
    {"errors", "table", "data", "pages"},
    {"noise", "privacy"},
    {"accounting"},
    {"finite"},
    {"mechanisms", "local", "ledger", "catalog"},
    {"verify", "query"},
    {"plan", "backends"},
    {"spending", "post", "policy"},
    {"engine"},
    {"discreet"},
    {"learn", "synth", "sketch", "recipes"},
    {"plots"},
    {"audit"},
    {"server"},
    {"cli"},
    {"__main__"},
    {"testing"},  # the public kit: it may use everything, and nothing uses it
)
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}

# (importing module, imported part): the reason.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("discreet", "audit"): "the front door names every part, for type checkers; it is loaded when it is first used",
    ("discreet", "learn"): "as above",
    ("discreet", "plots"): "as above",
    ("discreet", "sketch"): "as above",
    ("discreet", "synth"): "as above",
    ("discreet", "testing"): "as above",
}


def part_of(module: str) -> str:
    """The first name below `discreet`, or "discreet" for a public name of the package itself."""
    names = module.split(".")
    if len(names) == 1:
        return "discreet"
    part = SRC / "discreet" / names[1]
    return names[1] if part.is_dir() or part.with_suffix(".py").exists() else "discreet"


def upward_imports() -> dict[tuple[str, str], str]:
    """(module, part) of each import that does not go down, with where it stands."""
    found = {}
    for path in sources():
        own = part_of(module_of(path))
        for target, line in imports(path):
            if target.split(".")[0] != "discreet":
                continue
            part = part_of(target)
            if part != own and LEVEL[part] >= LEVEL[own]:
                found[module_of(path), part] = f"{name_of(path)}:{line} imports {target}"
    return found


def test_every_part_of_the_package_has_a_level() -> None:
    parts = {part_of(module_of(path)) for path in sources()}
    assert parts <= LEVEL.keys(), "give each new part its level in LEVELS"


def test_imports_go_only_downwards() -> None:
    assert [text for key, text in upward_imports().items() if key not in EXCEPTIONS] == []


def test_every_exception_is_still_needed() -> None:
    assert EXCEPTIONS.keys() - upward_imports().keys() == set()


def test_an_upward_import_inside_a_function_would_be_seen() -> None:
    session = SRC / "discreet" / "engine" / "session.py"
    assert any(part_of(target) == "plan" for target, _ in imports(session))
    assert part_of("discreet.errors.PlanError") == "errors"
    assert part_of("discreet.connect") == "discreet"
    assert LEVEL["errors"] < LEVEL["privacy"] < LEVEL["ledger"] < LEVEL["engine"] < LEVEL["cli"]


def file_imports() -> dict[str, set[str]]:
    """Return the modules of the package that each of them imports: anywhere, for type checkers too."""
    modules = {module_of(path): path for path in sources()}
    found = {}
    for module, path in modules.items():
        targets = {target for target, _ in imports(path)}
        inner = {target if target in modules else target.rpartition(".")[0] for target in targets}
        found[module] = (inner & modules.keys()) - {module}
    return found


def test_files_import_each_other_in_no_circle() -> None:
    assert cycles(file_imports()) == []


def test_a_circle_by_an_import_in_a_function_or_for_types_is_seen() -> None:
    found = file_imports()
    assert "discreet.plan.plan" in found["discreet.engine.session"]
    found["discreet.catalog.schema"].add("discreet.engine.session")
    met = {"discreet.catalog.schema", "discreet.engine.session"}
    assert any(met <= {*circle} for circle in cycles(found))


def test_relative_imports_are_resolved() -> None:
    assert [target for path in sources() for target, _ in imports(path) if target.startswith(".")] == []


def test_the_second_derivation_of_a_cost_shares_no_code_with_the_first() -> None:
    again = SRC / "discreet" / "verify"
    outside = {
        target
        for path in again.glob("*.py")
        for target, _ in imports(path)
        if target.startswith("discreet.")
        and (target.startswith("discreet.verify.certificate") or part_of(target) not in ("verify", "errors"))
    }
    # the values that a claim is made of, and no function of the planner's; of private parts, whose mechanisms may be
    # of any kind, the accountant composes the events that each mechanism says of itself
    assert outside == {
        "discreet.accounting.loss.PrivacyLoss",
        "discreet.mechanisms.draws.BestOfRuns",
        "discreet.mechanisms.draws.AboveOrBelow",
        "discreet.mechanisms.draws.AddedNoise",
        "discreet.mechanisms.draws.DrawLaw",
        "discreet.mechanisms.draws.NamedBest",
        "discreet.mechanisms.draws.RunningTotals",
        "discreet.mechanisms.exponential.Exponential",
        "discreet.mechanisms.noisy_max.NoisyMax",
        "discreet.mechanisms.exponential.PermuteAndFlip",
        "discreet.mechanisms.perturbed_minimum.PerturbedMinimum",
        "discreet.mechanisms.samples.FixedSizeSampling",
        "discreet.mechanisms.samples.OneOfSteps",
        "discreet.mechanisms.samples.PoissonSampling",
        "discreet.mechanisms.samples.Sampling",
        "discreet.mechanisms.sparse_vector.SparseVector",
        "discreet.mechanisms.binary_tree.BinaryTree",
        "discreet.mechanisms.additive.Additive",
        "discreet.mechanisms.additive.DiscreteLaplaceNoise",
        "discreet.mechanisms.additive.RoundedGaussianNoise",
        "discreet.mechanisms.exponential_quantile.ExponentialQuantile",
        "discreet.mechanisms.rounds.GaussianRounds",
        "discreet.mechanisms.rounds.Selection",
        "discreet.mechanisms.threshold.Threshold",
        "discreet.privacy.event.ApproximateEvent",
        "discreet.privacy.event.Composed",
        "discreet.privacy.event.Event",
        "discreet.privacy.event.GaussianEvent",
        "discreet.privacy.unit.Sensitivity",
        "discreet.privacy.unit.Relation",
    }


def test_the_checker_of_certificates_reaches_no_planner_session_or_database() -> None:
    reached = {part_of(target) for target in reached_from("discreet.verify.certificate.checker")}
    assert reached <= {"errors", "noise", "privacy", "accounting", "finite", "mechanisms", "ledger", "verify", "table"}


def test_what_a_checker_would_reach_by_way_of_another_module_is_seen() -> None:
    assert "discreet.noise.entropy" in reached_from("discreet.verify.certificate.checker")
    assert "discreet.plan.plan" in reached_from("discreet.engine.perform")


def reached_from(module: str) -> set[str]:
    """The modules of the package that importing this one, or calling what is in it, loads: imports inside functions are
    followed too, and those for type checkers.
    """
    modules = {module_of(path): path for path in sources()}
    found: set[str] = set()
    todo = [module]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        for target, _ in imports(modules[name]):
            inner = target if target in modules else target.rpartition(".")[0]
            if inner in modules and inner not in found and inner != "discreet":
                todo.append(inner)
    return found
