"""Certificates of releases that two populations paid for: one document, with a charge of each account for one claim."""
