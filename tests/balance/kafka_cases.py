"""Random groups of Kafka consumers, as one JSON object each, for a driver of Kafka's own assignors.

`topics` are their numbers of partitions. `racks` are those of each partition's replicas, by topic. The `static` of a
member is its group.instance.id. The partitions that a member claims may be gone, or another member may claim them as
well.
"""

from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

from apportion import balance
from apportion.balance.kafka.subscription import Subscription

Case = dict[str, Any]

spec = cache(balance.get)

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative")
# Java sorts by UTF-16: the last letter comes before the one in front of it there, and after it by code points.
LETTERS = "abz-09é節\uff5e🙂"
RACKS = ("east", "north", "west")


def histories(random: Random, assign: Callable[[Case], Case], count: int) -> Iterator[tuple[Case, Case]]:
    """Yield so many groups with the answer of `assign`; half of them continue from the group before."""
    made = 0
    while made < count:
        case = random_group(random)
        for _ in range(random.choice([1, 1, 2, 4])):
            said = assign(case)
            yield case, said
            made += 1
            if made == count or "error" in said:
                break
            case = moved_on(random, case, said)


def random_group(random: Random) -> Case:
    """Return a group with any past."""
    assignor = random.choice(ASSIGNORS)
    most = random.choice([3, 8, 40])
    topics = {_name(random, f"t{number}."): random.randint(1, most) for number in range(random.randint(1, 5))}
    if random.random() < 0.3:
        topics = dict.fromkeys(topics, random.randint(1, most))
    members = [_member(random, f"m{number}.") for number in range(random.randint(1, random.choice([3, 9, 17])))]
    random.shuffle(members)
    is_equal = random.random() < 0.4
    for member in members:
        share = topics if is_equal else random.sample(sorted(topics), random.randint(1, len(topics)))
        member["topics"] = random.sample(sorted(share), len(share))
    case = {"assignor": assignor, "topics": topics, "members": members}
    if random.random() < 0.4:
        case["racks"] = {topic: [_racks(random) for _ in range(size)] for topic, size in topics.items()}
        for member in members:
            member["rack"] = random.choice([*RACKS, *RACKS, None])
    if random.random() < 0.6:
        _give_past(random, case)
    return case


def moved_on(random: Random, case: Case, said: Case) -> Case:
    """Return the group after a member has left, joined, or both, or a topic grew; each claims its last partitions."""
    generation = 1 + max((member["generation"] for member in case["members"]), default=0)
    members = [
        member | {"owned": said["answer"]["members"][member["id"]], "generation": generation}
        for member in case["members"]
    ]
    random.shuffle(members)
    topics, racks = dict(case["topics"]), dict(case.get("racks", {}))
    if len(members) > 1 and random.random() < 0.6:
        members.pop()
    if random.random() < 0.6:
        new = _member(random, f"n{generation}.")
        members.append(new | {"topics": list(random.choice(case["members"])["topics"])})
    if random.random() < 0.3:
        grown = random.choice(sorted(topics))
        topics[grown] += 2
        racks = {each: [*listed, *([[RACKS[0]]] * (topics[each] - len(listed)))] for each, listed in racks.items()}
    found = {"assignor": case["assignor"], "topics": topics, "members": members}
    return found | ({"racks": racks} if racks else {})


def _name(random: Random, start: str) -> str:
    return start + "".join(random.choices(LETTERS, k=random.randint(0, 3)))


def _member(random: Random, start: str) -> Case:
    member: Case = {"id": _name(random, random.choice("azé🙂\uff5e") + start), "owned": [], "generation": -1}
    if random.random() < 0.2:
        member["static"] = _name(random, start)
    return member


def _racks(random: Random) -> list[str]:
    return random.sample(RACKS, random.choice([0, 1, 1, 1, 2, 3]))


def _give_past(random: Random, case: Case) -> None:
    """Say for each partition that a member of random generation owns it, now and then two of them, or a lost one."""
    generation, spread = random.choice([1, 5]), random.choice([0, 0, 1, 2])
    for member in case["members"]:
        member["generation"] = generation - random.randint(0, spread)
    claims = random.choice([1, 1, 1, 2])
    for topic, size in case["topics"].items():
        for number in range(size):
            for member in random.sample(case["members"], min(random.randint(0, claims), len(case["members"]))):
                member["owned"].append([topic, number])
    if random.random() < 0.2:
        random.choice(case["members"])["owned"].append(["gone", 0])


def ours(case: Case) -> Case:
    """Return our answer to a case, in the form of a driver's answer; withheld partitions as well."""
    members = [
        Subscription(
            member["id"],
            topics=member["topics"],
            owned=[(topic, number) for topic, number in member["owned"]],
            generation=member["generation"],
            group_instance_id=member.get("static"),
            rack=member.get("rack"),
        )
        for member in case["members"]
    ]
    racks = {
        (topic, number): names for topic, listed in case.get("racks", {}).items() for number, names in enumerate(listed)
    }
    return spec(f"kafka.{case['assignor']}")(case["topics"], members, racks=racks or None)


def by_member(said: Case) -> dict[str, list[tuple[str, int]]]:
    """Return the partitions of each member, sorted, from an answer of the driver."""
    return {
        member: sorted((topic, number) for topic, number in owned)
        for member, owned in said["answer"]["members"].items()
    }


def is_usable(case: Case, said: Case) -> bool:
    """Return whether Java answers at all, gives no partition twice, and gives no member an unwanted one.

    Java fails at that, rarely, where subscriptions differ and an older owner no longer wants a topic.
    """
    if "error" in said:
        return False
    wanted = {member["id"]: set(member["topics"]) for member in case["members"]}
    given = [(member, topic, number) for member, owned in by_member(said).items() for topic, number in owned]
    each_once = len({(topic, number) for _, topic, number in given}) == len(given)
    return each_once and all(topic in wanted[member] for member, topic, _ in given)
