"""Post-processing: from a noisy table to the rows of an answer, their intervals and totals. It reads no data."""
