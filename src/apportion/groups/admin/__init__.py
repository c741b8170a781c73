"""What an operator asks of a group and does to it, without being one of its members."""
