"""The state models of Helix: the states of a partition's replicas, the number of each, and the way between them.

Three of Helix's built-in models: MasterSlave, LeaderStandby and OnlineOffline. In the first two one replica leads.
Source: `MasterSlaveSMD`, `LeaderStandbySMD`, `OnlineOfflineSMD` and `StateModelDefinition` of Apache Helix 2.0.
"""

from dataclasses import dataclass
from typing import Literal

from apportion.errors import InvalidInput, UnknownOption
from apportion.errors.brief import brief

ModelName = Literal["MasterSlave", "LeaderStandby", "OnlineOffline"]

OFFLINE = "OFFLINE"
DROPPED = "DROPPED"
ERROR = "ERROR"


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class StateModel:
    """The state of a list's first node and of its other nodes; both are the same where no node leads.

    A replica goes from OFFLINE over `rest` to `top`, and back the same way to be DROPPED.

    >>> MODELS["MasterSlave"].counts(3), MODELS["OnlineOffline"].counts(3)
    ({'MASTER': 1, 'SLAVE': 2}, {'ONLINE': 3})
    """

    name: ModelName
    top: str
    rest: str

    @property
    def has_leader(self) -> bool:
        """Whether one replica leads."""
        return self.top != self.rest

    @property
    def serving(self) -> tuple[str, ...]:
        """The states that a list gives, by priority."""
        return (self.top, self.rest) if self.has_leader else (self.top,)

    @property
    def states(self) -> tuple[str, ...]:
        """Every state by its priority, the top state first."""
        return (*self.serving, OFFLINE, DROPPED, ERROR)

    @property
    def before_top(self) -> str:
        """The state from which one step leads to the top."""
        return self.rest if self.has_leader else OFFLINE

    def counts(self, replicas: int) -> dict[str, int]:
        """Return how many of `replicas` have each state, by priority; states without a replica are left out."""
        leading = min(replicas, 1) if self.has_leader else 0
        counts = {self.top: leading, self.rest: replicas - leading}
        return {state: count for state, count in counts.items() if count > 0}

    def state_at(self, place: int) -> str:
        """Return the state of a place in a full list."""
        return self.rest if place else self.top

    def step(self, state: str, target: str) -> str:
        """Return the next state on the way to a target; return the same state where no way leads on.

        No way leads to ERROR or from DROPPED. From ERROR, ways lead to OFFLINE and DROPPED alone.

        >>> MODELS["MasterSlave"].step("MASTER", "DROPPED"), MODELS["MasterSlave"].step("ERROR", "OFFLINE")
        ('SLAVE', 'OFFLINE')
        >>> MODELS["MasterSlave"].step("ERROR", "SLAVE")
        'ERROR'
        """
        way = (*self.serving, OFFLINE, DROPPED)
        if state == ERROR and target in (OFFLINE, DROPPED):
            return target
        if state in (target, DROPPED, ERROR) or target not in way:
            return state
        here = way.index(state)
        return way[here + 1] if way.index(target) > here else way[here - 1]

    def check(self, state: object) -> None:
        """Raise `UnknownOption` for a value that is no state of this model."""
        if state not in self.states:
            raise UnknownOption(f"state of {self.name}", state, self.states)


MODELS: dict[str, StateModel] = {
    "MasterSlave": StateModel(name="MasterSlave", top="MASTER", rest="SLAVE"),
    "LeaderStandby": StateModel(name="LeaderStandby", top="LEADER", rest="STANDBY"),
    "OnlineOffline": StateModel(name="OnlineOffline", top="ONLINE", rest="ONLINE"),
}


def model_of(name: ModelName) -> StateModel:
    """Return a model by name; `UnknownOption` names the nearest known name."""
    if not isinstance(name, str):
        raise InvalidInput("model", name, "one of " + ", ".join(MODELS), "Write model='MasterSlave'.")
    if name not in MODELS:
        raise UnknownOption("model", name, MODELS)
    return MODELS[name]
