"""Post-processing: from a noisy table to the rows of a result, their intervals and totals. It reads no data."""
