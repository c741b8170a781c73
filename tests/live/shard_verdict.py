"""The verdict on movers that were killed: from the ledgers of the writers and the two shards alone."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.live.shard_writers import deletes, ids


@dataclass(kw_only=True)
class ShardVerdict:
    """Keys that are not as the ledgers say, and slots that both files or none own."""

    acknowledged: int = 0
    lost: list = field(default_factory=list)
    stale: list = field(default_factory=list)
    resurrected: list = field(default_factory=list)
    owned_twice: list = field(default_factory=list)
    times: list = field(default_factory=list)

    @property
    def harm(self):
        """The numbers of all that must be 0."""
        return {name: len(getattr(self, name)) for name in ("lost", "stale", "resurrected", "owned_twice")}


def read_shard(files, shard):
    """Return the slots that a shard owns, and the values of the rows in them."""
    rows = files.sql(shard, "SELECT slot, state, number FROM apportion_slot")
    owned = {slot for slot, state, number in rows if state == "owner" or (state == "incoming" and number)}
    places = files.sql(shard, "SELECT slot, id, visits FROM place")
    return owned, {str(key).replace("-", ""): value for slot, key, value in places if slot in owned}


def verdict(folder, files):
    """Compare ledgers and files, each as `read_shard` tells it."""
    found = ShardVerdict()
    counts = Counter(slot for owned, _ in files for slot in owned)
    found.owned_twice += [slot for slot, count in counts.items() if count != 1]
    found.owned_twice += [key for key, count in Counter(key for _, rows in files for key in rows).items() if count > 1]
    values = {key: value for _, rows in files for key, value in rows.items()}
    acked, meant = {}, defaultdict(list)
    for ledger in folder.glob("ledger-*"):
        for line in ledger.read_text().splitlines():
            kind, country, number, *at = line.split()
            meant[country].append(int(number))
            if kind == "A":
                acked[country] = int(number)
                found.times += [float(at[0])] * len(ids(country))
    found.acknowledged = len(found.times)
    found.times.sort()
    for country, number in acked.items():
        later = [each for each in meant[country] if each > number]
        for key in ids(country):
            judge(found, f"{country} {key.hex}", values.get(key.hex), number, later)
    return found


def judge(found, name, value, number, later):
    """Judge one key: its value, the number that was acknowledged last, and the numbers that were tried after it."""
    if value is None:
        if not deletes(number) and not any(map(deletes, later)):
            found.lost.append(name)
    elif deletes(number):
        if value not in later:
            (found.resurrected if value < number else found.stale).append(name)
    elif value != number and value not in later:
        found.stale.append(name)
