"""The keys of a group in its store: one grammar, made and parsed here.

    group/<name>                      settings: partitions, mode, balancer, format; changed by a resize or after damage
    live/<name>/member/<id>           one life of a member, gone with its lease; its revision is the session
    live/<name>/drain/<id>            a request to that member to leave; gone with the same lease
    live/<name>/static/<id>           a static member, remembered after its lease has ended
    live/<name>/controller            the member that writes the target; gone with its lease; its revision is the term
    live/<name>/target                the member that should own each partition
    live/<name>/own/<partition>       the owner, its session and its epoch; never deleted

All other keys lie under `live/<name>/`, so one watch shows their changes in order. Keys of other kinds are skipped.
"""

from dataclasses import dataclass

GROUPS, LIVE = "group/", "live/"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKeys:
    """The keys of one group."""

    group: str

    @property
    def record(self) -> str:
        """The key of the settings of the group."""
        return f"{GROUPS}{self.group}"

    @property
    def live(self) -> str:
        """The prefix of all changing keys."""
        return f"{LIVE}{self.group}/"

    @property
    def controller(self) -> str:
        """The key that names the controller."""
        return f"{self.live}controller"

    @property
    def target(self) -> str:
        """The key of the target."""
        return f"{self.live}target"

    def member(self, member_id: str) -> str:
        """Return the key of a live member."""
        return f"{self.live}member/{member_id}"

    def drain(self, member_id: str) -> str:
        """Return the key of a request to a member to leave."""
        return f"{self.live}drain/{member_id}"

    def static(self, member_id: str) -> str:
        """Return the key that remembers a static member."""
        return f"{self.live}static/{member_id}"

    def own(self, partition: int) -> str:
        """Return the key of the ownership record of a partition."""
        return f"{self.live}own/{partition}"

    @staticmethod
    def parsed(key: str) -> tuple[str, str, str]:
        """Return the prefix, the kind and the name in a key. The prefix is "" for a key that is not in a group.

        >>> GroupKeys.parsed("live/mailers/own/17"), GroupKeys.parsed("live/mailers/target")
        (('live/mailers/', 'own', '17'), ('live/mailers/', 'target', ''))
        """
        end = key.find("/", len(LIVE)) + 1 if key.startswith(LIVE) else 0
        kind, _, name = key[end:].partition("/")
        return key[:end], kind, name
