"""Noise that follows the data: smooth sensitivity, propose-test-release, sample and aggregate."""
