"""Layouts of other systems, to the bit: a client of theirs and a client of ours answer alike."""
