"""Keys of tasks: the rules and the questions about the tasks of one key, which run one at a time, in order."""
