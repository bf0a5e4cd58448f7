"""Quantile trees, trees of counts over the values of a column: quantiles, least, largest and most frequent values."""
