"""A thousand partitions, three copies each: a node fails, comes back, the cluster grows, a node is weighed anew."""

from apportion import Assignment, Node, Topology, balance, decode, encode, plan

topology = Topology(
    [Node(f"{zone}-{number}", zone=("eu", zone)) for zone in ("ams", "fra", "lon") for number in (1, 2, 3)]
)
first = balance.optimal(partitions=1000, replicas=3, topology=topology)
print("replicas:", *sorted(set(first.loads.values())), "leads:", *sorted(set(first.leader_loads.values())))

live = [node_id for node_id in topology.ids if node_id != "fra-2"]
outage = balance.optimal(1000, 3, topology, previous=first, live=live)
print("fra-2 is down:", balance.verify(outage, previous=first))
led = next(partition for partition, owners in first.preference_lists.items() if owners[0] == "fra-2")
print(f"partition {led}:", *first[led], "->", *outage[led])

# Saved and loaded, nothing is lost: home, who is down, the certificate.
outage = decode(encode(outage), Assignment)
back = balance.optimal(1000, 3, topology, previous=outage)
print("fra-2 is back:", "all as before" if back == first else "changed")

grown = balance.optimal(1000, 3, topology.add(Node("ams-4", zone=("eu", "ams"))), previous=back)
print("ams-4 joins:", balance.verify(grown, previous=back))
print("everything goes to:", *{move.target for move in plan(back, grown).moves})

weighed = balance.optimal(1000, 3, grown.topology.reweight("lon-3", 0.5), previous=grown)
print("lon-3 is halved:", balance.verify(weighed, previous=grown))
print("lon:", *(weighed.loads[f"lon-{number}"] for number in (1, 2, 3)))

# Prints:
# replicas: 333 334 leads: 111 112
# fra-2 is down: verified: 0 of 3000 replicas move, the proven minimum, 333 more while nodes are down
# partition 5: fra-2 ams-1 lon-1 -> fra-1 ams-1 lon-1
# fra-2 is back: all as before
# ams-4 joins: verified: 250 of 3000 replicas move, the proven minimum
# everything goes to: ams-4
# lon-3 is halved: verified: 105 of 3000 replicas move, the proven minimum
# lon: 386 386 228
