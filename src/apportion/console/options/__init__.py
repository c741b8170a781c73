"""Options that several commands share: where nodes come from, which are up, how keys are placed on them."""
