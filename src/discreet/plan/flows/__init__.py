"""Questions to a table that protects two populations at once: each answer is a maximum flow between their units."""
