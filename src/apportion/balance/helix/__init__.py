"""Apache Helix's strategies, to the bit: the lists of a cluster under Helix, and the moves of a change in it.

`crush`, `crushed`, `multiround` and `auto` return preference lists. `states` derives the state of each replica from
them. `delayed` keeps lists while nodes are down for a while. `admitted` limits the changes that may begin at once.
The words of Helix, such as MASTER, live in this room alone.
"""

from apportion.balance.helix.auto import auto
from apportion.balance.helix.crush import crush
from apportion.balance.helix.crushed import crushed
from apportion.balance.helix.delay import Delay, delayed
from apportion.balance.helix.models import StateModel, model_of
from apportion.balance.helix.multiround import multiround
from apportion.balance.helix.request import ResourceLists
from apportion.balance.helix.states import states
from apportion.balance.helix.throttle import Limit, StateTransition, Wanted, admitted
from apportion.balance.helix.throttle import StateTransition as Change

__all__ = [
    "Change",
    "Delay",
    "Limit",
    "ResourceLists",
    "StateModel",
    "StateTransition",
    "Wanted",
    "admitted",
    "auto",
    "crush",
    "crushed",
    "delayed",
    "model_of",
    "multiround",
    "states",
]
