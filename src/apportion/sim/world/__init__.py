"""The world: processes, a store, a network and clocks in one thread, and the faults in it."""
