"""Load of a set: samples of the keys of pinned sessions, kept in the control store, and the advice that they give."""
