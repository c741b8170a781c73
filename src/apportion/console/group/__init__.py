"""`apportion group`: what an operator sees of a group and does to it, and the runner of commands."""
