"""Route keys to nodes, add a node, and see what would move before it moves."""

from apportion import Slots, Topology, balance, plan

topology = Topology(["db-1", "db-2", "db-3"])
slots = Slots(balance.slots(topology))
for tenant in ("tenant-1", "tenant-2", "tenant-42"):
    print(tenant, "is on", slots.route(tenant))

bigger = Slots(balance.slots(topology.add("db-4"), previous=slots.assignment))
change = plan(slots, bigger)
print(f"{change.moved_ratio:.2%} moves, at least {change.lower_bound_ratio:.2%}, stray {change.stray_ratio:.2%}")
print("every move goes to:", *{move.target for move in change.moves})
for tenant in ("tenant-1", "tenant-2", "tenant-42"):
    print(tenant, "would be on", bigger.route(tenant))

# Prints:
# tenant-1 is on db-1
# tenant-2 is on db-1
# tenant-42 is on db-1
# 25.00% moves, at least 25.00%, stray 0.00%
# every move goes to: db-4
# tenant-1 would be on db-1
# tenant-2 would be on db-4
# tenant-42 would be on db-4
