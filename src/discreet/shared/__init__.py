"""Sessions over tables that protect two populations at once: each question is charged to both, or not asked."""
