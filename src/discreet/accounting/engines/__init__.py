"""The engines that bound a composition from both sides, and the choice among them."""
