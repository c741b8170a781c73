"""Plan a change, save the plan, apply it to the saved table, and see a stale plan refused."""

from pathlib import Path

from apportion import Plan, Slots, Table, Topology, apply, balance, decode, encode, handover, plan
from apportion.errors import StaleEpoch

table_file, plan_file = Path("table.json"), Path("plan.json")
slots = Slots(balance.slots(Topology(["db-1", "db-2", "db-3"])))
table_file.write_bytes(encode(slots.table()))

# One colleague plans and saves the plan for review.
current = Slots.of_table(decode(table_file.read_bytes(), Table))
target = Slots(balance.slots(current.topology.add("db-4"), previous=current.assignment))
plan_file.write_bytes(encode(plan(current, target)))

# Another looks at it. While the data is copied, every key has owners in both placements.
change = decode(plan_file.read_bytes(), Plan)
print(f"{change.moved_ratio:.2%} moves, in {len(change.moves)} ranges")
print("write tenant-42 to:", *handover(current, target, "tenant-42").both)

# Then it is applied, to exactly the table that it was made from.
table_file.write_bytes(encode(apply(change, decode(table_file.read_bytes(), Table))))
print("tenant-42 is on", Slots.of_table(decode(table_file.read_bytes(), Table)).route("tenant-42"))

try:
    apply(change, decode(table_file.read_bytes(), Table))
except StaleEpoch as error:
    print(error)

# Prints:
# 25.00% moves, in 666 ranges
# write tenant-42 to: db-4 db-1
# tenant-42 is on db-4
# the change was made from epoch 1:81b0bc37, but the current epoch is 2:bea73678.
# Nothing was changed. Read the current state, plan again and apply the new plan.
