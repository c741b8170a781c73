"""Calls on a map as pure machines: a put and a get, each of one key. The coordinator drives them."""
