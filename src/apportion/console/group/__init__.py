"""`apportion group`: shows a group to an operator, carries out the operator's acts, and runs commands as a member."""
