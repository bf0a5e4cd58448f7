"""`discreet account`: what a training run with Gaussian noise on samples has cost, or how much noise it needs."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import output
from discreet.cli.options import Amount
from discreet.errors import InvalidParameter
from discreet.privacy.exact import exact, positive, probability
from discreet.privacy.guarantee import decimal
from discreet.table import render

if TYPE_CHECKING:
    from discreet.accounting import PrivacyLoss

_OTHERS = (
    Fraction(1, 10**4),
    Fraction(1, 10**5),
    Fraction(1, 10**6),
    Fraction(1, 10**8),
    Fraction(1, 10**10),
)


@click.command("account", short_help="What a run of DP-SGD has cost, or the noise that it needs.")
@click.option(
    "--noise-multiplier", "-z", type=Amount(positive), help="Deviation of the noise over the clipping norm."
)
@click.option(
    "--sample-rate",
    "-q",
    type=Amount(exact),
    default="1",
    show_default=True,
    help="The chance of each record to enter a step.",
)
@click.option("--steps", "-t", type=int, default=1, show_default=True, help="The number of steps.")
@click.option("--delta", type=Amount(probability), required=True, help="The δ to answer for.")
@click.option("--epsilon", type=Amount(positive), help="Solve for the noise multiplier that meets this ε.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(
    noise_multiplier: Fraction | None,
    sample_rate: Fraction,
    steps: int,
    delta: Fraction,
    epsilon: Fraction | None,
    as_json: bool,
) -> None:  # fmt: skip
    """The ε of Gaussian noise on Poisson samples, T times: `--noise-multiplier 1 --sample-rate 0.01 --steps 1000`.

    It holds for neighbours that differ by adding or removing one record.
    """
    from discreet.accounting import calibrate, gaussian

    if (noise_multiplier is None) == (epsilon is None):
        raise InvalidParameter(
            "account needs either --noise-multiplier or --epsilon.",
            hint="--noise-multiplier 1 asks what a run cost, --epsilon 3 how much noise it needs",
        )

    def run(sigma: Fraction) -> PrivacyLoss:
        return gaussian(sigma).poisson(sample_rate) * steps

    solved = epsilon is not None
    if epsilon is not None:
        noise_multiplier = calibrate(run, epsilon=epsilon, delta=delta)
    assert noise_multiplier is not None
    loss = run(noise_multiplier)
    deltas = sorted({delta, *_OTHERS}, reverse=True)
    bounds = {d: loss.bounds(d) for d in deltas if d > 0}
    upper = bounds[delta][1] if delta else loss.epsilon(0)
    if as_json:
        output.say_json(_json(noise_multiplier, sample_rate, steps, delta, upper, bounds))
        return
    if solved:
        output.say(
            f"A noise multiplier of {decimal(noise_multiplier)} meets ε = {upper:.6g} at δ = {decimal(delta)}."
        )
    else:
        output.say(f"ε = {upper:.8g} at δ = {decimal(delta)}, for adding or removing one record.")
    rows: list[list[str | None]] = [
        [decimal(d), f"{low:.8g}", f"{high:.8g}"] for d, (low, high) in bounds.items()
    ]
    output.say(render(["δ", "ε is at least", "ε is at most"], rows))


def _json(
    sigma: Fraction,
    rate: Fraction,
    steps: int,
    delta: Fraction,
    epsilon: float,
    bounds: dict[Fraction, tuple[float, float]],
) -> dict[str, Any]:
    return {
        "noise_multiplier": float(sigma),
        "sample_rate": float(rate),
        "steps": steps,
        "delta": float(delta),
        "epsilon": epsilon,
        "relation": "add-remove",
        "bounds": [{"delta": float(d), "lower": low, "upper": high} for d, (low, high) in bounds.items()],
    }
