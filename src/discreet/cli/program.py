"""The program `discreet`: finds the command, runs it, and turns failures into sentences and exit codes."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click

from discreet.cli import output
from discreet.cli.waiting import INTERRUPTED
from discreet.errors import DiscreetError

COMMANDS = {  # in the order of the help; each module is imported when its command is asked for
    "demo": "discreet.cli.demo",
    "init": "discreet.cli.init",
    "tables": "discreet.cli.tables",
    "sql": "discreet.cli.sql",
    "plan": "discreet.cli.plan",
    "learn": "discreet.cli.learn",
    "both": "discreet.cli.two_populations",
    "synth": "discreet.cli.synth",
    "account": "discreet.cli.account",
    "verify": "discreet.cli.verify",
    "audit": "discreet.cli.audit",
    "budget": "discreet.cli.budget",
    "ledger": "discreet.cli.ledger",
    "doctor": "discreet.cli.doctor",
}

HUNG_UP = 141  # 128 + SIGPIPE, as shells have it; 1 is the answer of an audit


class Program(click.Group):
    """The group of all commands, with our errors and exit codes in the place of click's."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant; the refusal of an unknown one names near ones."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0].lower(), COMMANDS, n=2, cutoff=0.5)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {' or '.join(near)}?", ctx) from None

    def main(  # type: ignore[override]  # never returns a value to its caller: it is the whole program
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run the program and exit with 0, 1, 2, 3, 4 or 130; the help says what they mean."""
        try:
            code = self._run(list(sys.argv[1:] if args is None else args), prog_name or "discreet", extra)
        except BrokenPipeError:  # the reader of a pipe has left, as `head` does: of the answer or of an error
            output.close_quietly()
            code = HUNG_UP
        sys.exit(code)

    def _run(self, args: list[str], name: str, extra: Mapping[str, Any]) -> int:
        as_json = "--json" in args
        output.tolerate_narrow_encodings()
        stdout = sys.stdout
        try:
            result = super().main(args, name, **{**extra, "standalone_mode": False})
            output.flush()
            code = result if isinstance(result, int) else 0
        except click.UsageError as error:
            output.usage_error(error, as_json=as_json)
            code = 2
        except DiscreetError as error:
            output.error(error, as_json=as_json, typed=args)
            code = error.exit_code
        except (click.Abort, KeyboardInterrupt):
            output.failure(
                "Interrupted", "Stopped; a charge that was already written stays in its ledger.", "", as_json=as_json
            )
            code = INTERRUPTED
        except BrokenPipeError:
            raise
        except SystemExit as leaving:
            if leaving.code == 1 and sys.stdout is not stdout:  # click met a broken pipe first, and muted it
                output.close_quietly()
                return HUNG_UP
            raise
        except Exception:  # an error is an output: neither its text nor its trace may be shown
            output.unexpected(as_json=as_json)
            code = 4
        return code


_CLOSING = """\b
Start here:
  discreet demo             a tour in a few seconds
  discreet demo --save .    five sample tables to play with
  discreet init adult.parquet   a draft of a policy for your own data
  discreet sql adult.parquet "SELECT COUNT(*) AS n FROM adult" \\
      --each-row --epsilon 0.5 --budget 3

Exit codes: 0 answered, 1 an audit found a violation, 2 the request is wrong, 3 budget exceeded,
4 the data source or the ledger failed.
"""


@click.group(
    cls=Program,
    epilog=_CLOSING,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="discreet", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Run SQL on data about people; results are differentially private and have error bars."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
