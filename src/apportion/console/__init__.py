"""Console: the command line reads files and prints answers. No other package imports it."""
