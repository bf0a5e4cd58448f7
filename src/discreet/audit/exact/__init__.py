"""Mechanisms that are small matrices, judged exactly."""
