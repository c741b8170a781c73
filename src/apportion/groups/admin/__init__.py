"""Admin: questions and acts of an operator of a group, without being one of its members."""
