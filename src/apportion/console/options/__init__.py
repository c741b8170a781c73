"""Options that several commands share: the source of nodes, the nodes that are up, and the placement of keys."""
