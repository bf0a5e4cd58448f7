"""Pictures of laws, losses, accounts and results, in Altair; `pip install 'discreet[plots]'`.

>>> from discreet import accounting, plots
>>> chart = plots.privacy(accounting.gaussian(noise_multiplier=1), delta=1e-6)
>>> [panel.title for panel in chart.hconcat]
['Privacy curve', 'Errors of the best attacker']

A chart shows itself in a notebook, with numbers under the pointer. `plots.save(chart, "loss.svg")` writes it, also as
.png or .pdf, without a browser and without the network. Pictures are made of public facts and of releases only,
and hold only what they show.
"""

from __future__ import annotations

from discreet.namespace import public_names
from discreet.plots.accounts import spending as spending
from discreet.plots.answers import release as release
from discreet.plots.beliefs import posterior as posterior
from discreet.plots.choice import choice as choice
from discreet.plots.distribution import matrix as matrix
from discreet.plots.distribution import privacy_loss as privacy_loss
from discreet.plots.loss import delta as delta
from discreet.plots.loss import privacy as privacy
from discreet.plots.loss import tradeoff as tradeoff
from discreet.plots.neighbours import densities as densities
from discreet.plots.spectrum import spectrum as spectrum
from discreet.plots.vega import check as check
from discreet.plots.vega import save as save
from discreet.plots.widths import error as error


def __dir__() -> list[str]:
    return public_names(globals())
