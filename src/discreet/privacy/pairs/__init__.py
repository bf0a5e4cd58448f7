"""The dominating pairs of the events, one file for each family of noise."""
