"""Runs that other libraries have recorded, as losses, and losses as events that other libraries read.

No other library has to be installed, except to make its own objects.

>>> loss = from_opacus([(1.1, 0.004, 10_000)])
>>> len(loss.events)
10000
>>> from_dp_accounting(to_dp_accounting_json(loss)) == loss
True
"""

from __future__ import annotations

from discreet.accounting.interop.dp_accounting import from_dp_accounting as from_dp_accounting
from discreet.accounting.interop.dp_accounting import to_dp_accounting as to_dp_accounting
from discreet.accounting.interop.dp_accounting import to_dp_accounting_json as to_dp_accounting_json
from discreet.accounting.interop.recorded import from_opacus as from_opacus
from discreet.accounting.interop.recorded import from_prv as from_prv
from discreet.accounting.interop.recorded import read_history as read_history
from discreet.accounting.interop.recorded import to_opacus as to_opacus
