"""Three copies of every key in three zones, and what the loss of a node means for them."""

from apportion import Node, Ring, plan
from apportion.errors import NotEnoughNodes

ring = Ring(
    [Node(f"{zone}-{number}", zone=(zone, f"rack{number}")) for zone in ("ams", "fra", "lon") for number in (1, 2)]
)
print("copies:", *ring.preference("tenant-42", 3, spread_level=0))  # level 0 of the zone: the city

smaller = ring.on(ring.topology.without("fra-1"))
print("without fra-1:", *smaller.preference("tenant-42", 3, spread_level=0))

before, after = ring.table(3, spread_level=0), smaller.table(3, spread_level=0)
change = plan(before, after)
print("new homes:", *sorted({f"{move.source} -> {move.target}" for move in change.moves}))
print(f"moved {change.moved_ratio:.2%}, at least {change.lower_bound_ratio:.2%}, stray {change.stray_ratio:.2%}")

try:
    ring.preference("tenant-42", 4, spread_level=0)
except NotEnoughNodes as error:
    print(error)

# Prints:
# copies: fra-1 ams-2 lon-2
# without fra-1: ams-2 lon-2 fra-2
# new homes: fra-1 -> fra-2
# moved 17.67%, at least 17.67%, stray 0.00%
# 4 replicas wanted in distinct zones, 3 eligible (ams-2, fra-2, lon-2).
# Add zones, ask for fewer replicas, or relax the rule with spread='best-effort'.
