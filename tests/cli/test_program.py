from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable

import click
import pytest

from discreet import errors
from discreet.cli import doctor, program
from tests.cli.conftest import Call


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Lets the command `doctor` fail in a chosen way."""

    def fail_with(problem: BaseException) -> None:
        @click.command()
        @click.option("--json", "as_json", is_flag=True)
        def command(as_json: bool) -> None:
            raise problem

        monkeypatch.setattr(doctor, "command", command)

    return fail_with


def test_the_help_names_every_command(call: Call) -> None:
    for args in ([], ["--help"], ["-h"]):
        result = call(*args)
        assert result.exit_code == 0
        assert [name for name in program.COMMANDS if f"  {name} " not in result.stdout] == []


@pytest.mark.parametrize("args", [*([name] for name in program.COMMANDS), ["ledger", "verify"]])
def test_every_command_explains_itself(call: Call, args: list[str]) -> None:
    result = call(*args, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: discreet {' '.join(args)} ")
    assert "..." not in call().stdout.partition("Commands:")[2]  # no summary is cut off


def test_the_help_is_quick_since_nothing_heavy_is_imported() -> None:
    code = (
        "import sys\n"
        "from discreet.cli import main\n"
        "try: main(['sql', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'duckdb', 'scipy', 'sqlglot', 'cryptography', 'pandas', 'pyarrow'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (errors.UnsupportedQuery("No.", hint="yes"), 2),
        (errors.InvalidParameter("No.", hint="yes"), 2),
        (errors.MissingExtra("No.", hint="yes"), 2),
        (errors.BudgetExceeded("No.", asked="1", left="0", hint="yes"), 3),
        (errors.LedgerCorrupt("No.", hint="yes"), 4),
        (errors.SourceError("No.", hint="yes"), 4),
        (errors.BackendFailed("No.", hint="yes"), 4),
        (errors.InternalError("No.", hint="yes"), 4),
    ],
)
def test_an_error_is_a_sentence_and_a_hint_on_stderr_and_an_exit_code(
    call: Call, failing: Callable[[BaseException], None], problem: errors.DiscreetError, code: int
) -> None:
    failing(problem)
    plain, as_json = call("doctor"), call("doctor", "--json")
    assert (plain.exit_code, plain.stdout, plain.stderr) == (code, "", "Error: No.\nHint: yes.\n")
    assert (as_json.exit_code, as_json.stdout) == (code, "")
    assert json.loads(as_json.stderr) == {"error": type(problem).__name__, "message": "No.", "hint": "yes."}


def test_a_missing_bound_says_how_the_command_line_declares_it(
    call: Call, failing: Callable[[BaseException], None]
) -> None:
    failing(errors.MissingBounds("AVG(x) needs bounds.", hint="declare dp.Range"))
    assert "Hint: declare --range." in call("doctor").stderr


@pytest.mark.parametrize("problem", [ValueError("salary 77516"), AssertionError("77516"), MemoryError("77516")])
def test_an_unforeseen_failure_says_nothing_of_its_text(
    call: Call, failing: Callable[[BaseException], None], problem: Exception
) -> None:
    failing(problem)
    for args in ([], ["--json"]):
        result = call("doctor", *args)
        assert result.exit_code == 4
        assert "77516" not in result.output
        assert "Traceback" not in result.output
        assert type(problem).__name__ not in result.output
        assert "please report" in result.stderr


def test_an_interrupt_says_where_a_charge_would_be(call: Call, failing: Callable[[BaseException], None]) -> None:
    failing(KeyboardInterrupt())
    result = call("doctor")
    assert result.exit_code == 130
    assert "stays in its ledger" in result.stderr


def test_an_error_cannot_move_the_cursor(call: Call, failing: Callable[[BaseException], None]) -> None:
    failing(errors.UnknownColumn("There is no column '\x1b[2J\x07'.", hint="try \u202etxt"))
    text = call("doctor").stderr
    assert "\x1b[2J" not in text
    assert r"\x1b[2J\x07" in text
    assert r"\u202etxt" in text


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["teach"], "No such command 'teach'"),
        (["sql"], "Missing argument '[SOURCE] QUERY'"),
        (["sql", "adult.parquet"], "The query has no SOURCE, and there is no policy discreet.toml in this folder"),
        (["sql", "a", "b", "c"], "There is more than a SOURCE and a QUERY"),
        (["sql", "a", "b", "--epsilon", "1", "--sauce"], "No such option"),
        (["sql", "a", "b", "--epsilon", "1", "--noise", "pink"], "'pink' is not one of"),
        (["sql", "a", "b", "--epsilon", "1", "--max-rows", "few"], "'few' is not a valid integer"),
        (["sql", "a", "b", "--epsilon", "0"], "--epsilon must be above 0"),
        (["sql", "a", "b", "--epsilon", "nan"], "--epsilon must be a number"),
        (["sql", "a", "b", "--epsilon", "1", "--delta", "1"], "--delta must lie in [0, 1)"),
        (["sql", "a", "b", "--epsilon", "1", "--each-row", "--unit", "u"], "--unit and --each-row do not go together"),
        (["sql", "a", "b", "--epsilon", "1", "--each-row", "--max-rows", "1"], "do not go with --each-row"),
        (["sql", "a", "b", "--epsilon", "1", "--each-row", "--range", "x"], "COLUMN=LOW:HIGH"),
        (["sql", "a", "b", "--epsilon", "1", "--each-row", "--range", "x=5:1"], "low ≤ high"),
        (["sql", "a", "b", "--epsilon", "1", "--each-row", "--values", "x=a,a"], "differ from each other"),
        (["sql", "a", "b", "--epsilon", "1", "--each-row", "--json", "--csv"], "cannot both be had"),
        (["sql", "a", "b", "--epsilon", "1", "--each-row", "--confidence", "95"], "between 0 and 1"),
        (["sql", "a", "b", "--epsilon", "1", "--each-row", "--confidence", "nan"], "between 0 and 1"),
        (["plan", "a", "b", "--epsilon", "1", "--each-row", "--confidence", "0"], "between 0 and 1"),
        (["sql", "a", "b", "--epsilon", "1", "--each-row", "--budget-delta", "1e-6"], "needs --budget"),
        (["sql", "a", "b", "--epsilon", "1", "--each-row", "--budget", "1,1e-6", "--budget-delta", "0"], "given twice"),
        (["sql", "a", "b", "--epsilon", "1", "--each-row", "--range", "x=0:1", "--values", "x=0,1"], "declared twice"),
    ],
)
def test_a_wrong_call_is_exit_code_2_with_a_sentence_and_a_hint(call: Call, args: list[str], says: str) -> None:
    plain, as_json = call(*args), call(*args, "--json")
    assert plain.exit_code == as_json.exit_code == 2
    assert plain.stdout == as_json.stdout == ""
    assert says in json.loads(as_json.stderr)["message"]
    if "--json" not in args:
        sentence, hint = plain.stderr.splitlines()
        assert says in sentence
        assert hint.startswith("Hint: ")


def test_a_reader_that_leaves_is_no_failure_worth_words() -> None:
    command = f"{sys.executable} -c 'from discreet.cli import main; main()' sql --help | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_terminal_without_greek_letters_shows_question_marks() -> None:
    code = "from discreet.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "sql", "--help"],
        capture_output=True,
        check=True,
        env={"PYTHONIOENCODING": "latin-1", "PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert b"?, the privacy cost" in done.stdout


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["account", "--help"],
        ["account", "--noise-multiplier", "2", "--delta", "1e-5"],
        ["account", "--noise-multiplier", "2", "--delta", "1e-5", "--json"],
        ["doctor"],
    ],
)
def test_a_reader_that_leaves_a_pipe_is_no_error(args: list[str]) -> None:
    command = [sys.executable, "-c", "from discreet.cli import main; main()", *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()  # as `head` does, only sooner
        assert process.stderr is not None
        said = process.stderr.read()
    assert said == b""
    assert process.returncode == program.HUNG_UP == 128 + signal.SIGPIPE


def test_a_reader_of_errors_that_leaves_changes_nothing_else() -> None:
    command = [sys.executable, "-c", "from discreet.cli import main; main()", "account"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        process.stderr.close()
        assert process.stdout is not None
        assert process.stdout.read() == b""
    assert process.returncode == program.HUNG_UP
