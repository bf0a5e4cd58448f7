"""`discreet account`: what a training run with Gaussian noise on samples has cost, or how much noise it needs."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import output, writing
from discreet.cli.options import Amount
from discreet.errors import InvalidParameter, SourceError
from discreet.privacy.exact import exact, positive, probability
from discreet.privacy.guarantee import decimal
from discreet.privacy.unit import Relation
from discreet.table import render

if TYPE_CHECKING:
    from discreet.accounting import PrivacyLoss

_WORDS = {"add-remove": "adding or removing", "replace": "replacing"}
_OTHERS = (Fraction(1, 10**4), Fraction(1, 10**5), Fraction(1, 10**6), Fraction(1, 10**8), Fraction(1, 10**10))


@click.command("account", short_help="Privacy loss of a DP-SGD run, or the noise for a wanted ε.")
@click.option(
    "--noise-multiplier",
    "-z",
    type=Amount(positive),
    help="Standard deviation of the noise, divided by the clipping norm.",
)
@click.option(
    "--sample-rate",
    "-q",
    type=Amount(exact),
    default="1",
    show_default=True,
    help="Sampling rate: probability that a record is in a step.",
)
@click.option("--steps", "-t", type=int, default=1, show_default=True, help="Number of steps.")
@click.option("--delta", type=Amount(probability), required=True, help="δ at which ε is reported.")
@click.option("--epsilon", type=Amount(positive), help="Target ε; the noise multiplier is solved for.")
@click.option(
    "--history", metavar="FILE", help="File with a finished run: Opacus history or dp_accounting event, as JSON."
)
@click.option(
    "--relation",
    type=click.Choice([r.value for r in Relation]),
    default=Relation.ADD_REMOVE.value,
    show_default=True,
    help="Neighbouring relation of --history.",
)
@click.option("--plot", metavar="FILE", help="File for a picture of the curves (.svg, .png, .pdf).")
@click.option("--json", "as_json", is_flag=True, help="JSON output.")
def command(
    noise_multiplier: Fraction | None,
    sample_rate: Fraction,
    steps: int,
    delta: Fraction,
    epsilon: Fraction | None,
    history: str | None,
    relation: str,
    plot: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Show the ε of Gaussian noise on Poisson samples, T times: `--noise-multiplier 1 --sample-rate 0.01 --steps 1000`.

    That holds for neighbours that differ by adding or removing one record. `--history run.json` answers for a
    run that another library recorded.
    """
    from discreet.accounting import calibrate, gaussian

    if sum(x is not None for x in (noise_multiplier, epsilon, history)) != 1:
        raise InvalidParameter(
            "account needs either --noise-multiplier or --epsilon, or a --history.",
            hint="--noise-multiplier 1 asks what a run cost, --epsilon 3 how much noise it needs",
        )
    given = click.get_current_context().get_parameter_source
    ignored = ("sample_rate", "steps") if history is not None else ("relation",)
    for name in ignored:
        if given(name) is click.core.ParameterSource.COMMANDLINE:
            beside = "has no meaning beside" if history is not None else "has a meaning only beside"
            raise InvalidParameter(f"--{name.replace('_', '-')} {beside} --history.")
    if plot is not None:
        writing.check_picture(plot, [] if history is None else [history])  # before the work

    def run(sigma: Fraction) -> PrivacyLoss:
        return gaussian(sigma).poisson(sample_rate) * steps

    asked: dict[str, Any] = {"history": history}
    if history is not None:
        from discreet.accounting.interop import read_history

        loss = read_history(history, relation=relation)
    else:
        noise_multiplier = noise_multiplier or calibrate(run, epsilon=epsilon or 0, delta=delta)
        loss = run(noise_multiplier)
        asked = {"noise_multiplier": float(noise_multiplier), "sample_rate": float(sample_rate), "steps": steps}
    answer = loss.answer(delta)
    rows = [(d, *_bounds(loss, d)) for d in sorted({delta, *_OTHERS}, reverse=True) if d > 0]
    engine, upper = answer.engine, {d: high for d, _, high in rows}.get(delta) or loss.epsilon(delta)
    neighbours = "add-remove" if loss.relation is None and history is None else _neighbours(loss, relation)
    if plot is not None:
        _draw(loss, delta, plot)
    if as_json:
        output.say_json(
            {
                **asked,
                "delta": float(delta),
                "epsilon": upper,
                "relation": neighbours,
                "engine": engine.name,
                "theorem": engine.theorem,
                "bounds": [{"delta": float(d), "lower": low, "upper": high} for d, low, high in rows],
            }
        )
        return
    if epsilon is not None and noise_multiplier is not None:
        noise = decimal(noise_multiplier)
        output.say(f"A noise multiplier of {noise} meets ε = {upper:.6g} at δ = {decimal(delta)}.")
    else:
        output.say(f"ε = {upper:.8g} at δ = {decimal(delta)}, for {_WORDS[neighbours]} one record.")
    table: list[list[str | None]] = [
        [decimal(d), *("none" if x is None else f"{x:.8g}" for x in (low, high))] for d, low, high in rows
    ]
    output.say(render(["δ", "ε is at least", "ε is at most"], table))
    output.say(f"By {engine.name} ({engine.theorem}).")


def _bounds(loss: PrivacyLoss, delta: Fraction) -> tuple[float, float] | tuple[None, None]:
    """None where no ε exists: more δ is spent apart."""
    return loss.bounds(delta) if loss.failure < delta else (None, None)


def _neighbours(loss: PrivacyLoss, relation: str) -> str:
    return relation if loss.relation is None else loss.relation.value


def _draw(loss: PrivacyLoss, delta: Fraction, file: str) -> None:
    from discreet import plots

    try:
        plots.save(plots.privacy(loss, delta=delta or None), file)
    except OSError as error:
        raise SourceError(
            f"{file} cannot be written: {error.strerror}.", hint="name a file in a folder that exists"
        ) from None
    output.remark(f"The curves are drawn in {file}.")
