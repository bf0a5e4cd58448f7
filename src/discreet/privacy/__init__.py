"""Privacy as values: units, guarantees, sensitivities, events, dominating pairs. No input, no output."""
