"""Values spread over a tree of counts: quantiles, least, largest and most frequent values."""
