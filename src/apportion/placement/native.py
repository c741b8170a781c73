"""The native twin, as `apportion.model.native` has loaded it: there too the twin answers a call.

Promises: the same objects. Refuses: to load anything.
"""

from apportion.model.native import DETAIL, IN_USE, STATE, SWITCH, State, extension

__all__ = ["DETAIL", "IN_USE", "STATE", "SWITCH", "State", "extension"]
