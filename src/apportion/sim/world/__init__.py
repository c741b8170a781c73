"""The world: processes, a store, a network and clocks in one thread, and what goes wrong in it."""
