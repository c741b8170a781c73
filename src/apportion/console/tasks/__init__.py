"""`apportion tasks`: workers, and the commands of an operator of tasks."""
