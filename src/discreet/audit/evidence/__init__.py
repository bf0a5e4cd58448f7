"""The statistics: wealth against a promise, exact intervals, lower bounds, the trade-off."""
