"""Pictures of privacy losses, and of what accounts spend, in matplotlib; `pip install 'discreet[plots]'`.

>>> from discreet import accounting, plots
>>> figure = plots.privacy(accounting.gaussian(noise_multiplier=1), delta=1e-6)
>>> len(figure.axes)
2

`figure.savefig("loss.png")` or `plots.save(figure, "loss.svg")` writes it. Nothing here opens a window or
touches the global state of `pyplot`.
"""

from __future__ import annotations

from discreet.plots.accounts import spending as spending
from discreet.plots.files import check as check
from discreet.plots.files import save as save
from discreet.plots.loss import delta as delta
from discreet.plots.loss import privacy as privacy
from discreet.plots.loss import tradeoff as tradeoff
