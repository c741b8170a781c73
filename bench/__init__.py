"""The benchmark suite: every figure that the documentation states, measured here and now. `python -m bench`.

Refuses: to be a test. A missed goal is printed as MISSED and fails nothing, because a busy machine misses goals too.
Promises: real peers, interleaved rounds, exact counts where counts exist; what could not run is an error.
"""
