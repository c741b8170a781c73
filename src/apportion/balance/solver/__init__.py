"""The solver of `optimal`: the fewest moves to loads that are as even as zones allow, with a proof."""
