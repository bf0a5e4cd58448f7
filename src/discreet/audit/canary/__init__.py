"""Training audited with canaries."""
