"""Mistakes with nodes, keys, placements and hashers: each error names the value, an expectation and the next step."""

import pytest

from tests.mistakes import check_refused, mistakes

MISTAKES = """
# construction
Ring("abc") | nodes is 'abc' | Put a single node in a list: ["a"].
Ring(None) | nodes is None | Write a list: ["a", "b"], or pass a
Ring(3) | nodes is 3 | Write a list: ["a", "b"], or pass a
Ring([]) | a ring needs a node with a weight above 0 and the topology has none | Add a node, or give one of them a
Ring(["a", "a"]) | node id is 'a' | Rename one of the two, or drop it.
Ring(["a", None]) | node id is None | Pass a string; call str(...) if
Ring([1, 2]) | node id is 1 | Pass a string; call str(...) if
Ring(["a", ""]) | node id is '' | Give it a name; check for an extra
Ring([("a", 1), ("b", 9)]) | node is a tuple | Write Node("a", weight=2). To add a list,
Ring([{"id": "a"}]) | node is a dict | Write Node("a", weight=2). To add a list,
Ring({"a": -1, "b": 1}) | weight of node 'a' is -1 | Weights are relative: give the ordinary
Ring({"a": float("nan")}) | weight of node 'a' is nan | Weights are relative: give the ordinary
Ring({"a": float("inf")}) | weight of node 'a' is inf | Weights are relative: give the ordinary
Ring({"a": "1"}) | weight of node 'a' is '1' | Weights are relative: give the ordinary
Ring({"a": None}) | weight of node 'a' is None | Weights are relative: give the ordinary
Ring({"a": True}) | weight of node 'a' is True | Weights are relative: give the ordinary
Ring({"a": 1e10}) | weight of node 'a' is 10000000000.0 | Weights are relative: give the ordinary
Ring({"a": 0}) | a ring needs a node with a weight above 0 and the topology has none | Add a node, or give one of them
Ring({"a": {"weight": 2}}) | weight of node 'a' is a dict | Weights are relative: give the ordinary
Ring({"a": np.float64("nan")}) | weight of node 'a' is nan | Weights are relative: give the ordinary
Ring({"a": np.timedelta64(5, "s")}) | weight of node 'a' is a timedelta64 | Weights are relative: give the ordinary
Ring({"a": np.bool_(True)}) | weight of node 'a' is a bool | Weights are relative: give the ordinary
Ring({"a": np.array(1)}) | weight of node 'a' is a ndarray | Weights are relative: give the ordinary
Ring({1: 2}) | node id is 1 | Pass a string; call str(...) if
Ring(["a"], vnodes=0) | vnodes is 0 | The default, 150, keeps nodes within about
Ring(["a"], vnodes="150") | vnodes is '150' | The default, 150, keeps nodes within about
Ring(["a"], vnodes=1.5) | vnodes is 1.5 | The default, 150, keeps nodes within about
Ring(["a"], vnodes=None) | vnodes is None | The default, 150, keeps nodes within about
Ring(["a"], vnodes=np.int64(3)) | vnodes is an int64 | The default, 150, keeps nodes within about
Ring(["a"], hasher="MD5") | hasher is 'MD5' | Did you mean 'md5'?
Ring(["a"], hasher="sha") | hasher is 'sha' | Did you mean 'sha-256'?
Ring(["a"], hasher=hash) | hasher is a builtin_function_or_method | Call hashers.names() for the names.
Ring(["a"], hasher=None) | hasher is None | Call hashers.names() for the names.
Ring(["a"], hasher=lambda data: 1) | hasher is a function | Call hashers.names() for the names.
Ring(["a"], hasher="crc32") | hasher is 'crc32' | Did you mean 'crc16'?
Ring(["a"], hasher="siphash-2-4") | hasher key is None | Pass key= to siphash-2-4, and to it alone.
Ring(Ring(["a"])) | nodes is a Ring | Write a list: ["a", "b"], or pass a
Ring(Ring) | nodes is an ABCMeta | Write a list: ["a", "b"], or pass a
Ring(np.array([1, 2])) | node id is an int64 | Pass a string; call str(...) if
Ring(pd.DataFrame({"a": [1]})) | nodes is a DataFrame | Write a list: ["a", "b"], or pass a
Rendezvous("abc") | nodes is 'abc' | Put a single node in a list: ["a"].
Rendezvous([]) | rendezvous hashing needs a node with a weight above 0 and the topology has none | Add a node, or give
Jump({"a": 1, "b": 2}) | weight of node 'b' is 2.0 | Jump hashing knows no weights: use Ring,
Jump([]) | jump hashing needs a node with a weight above 0 and the topology has none | Add a node, or give one of them
Jump(3) | nodes is 3 | Write a list: ["a", "b"], or pass a
Modulo({"a": 1, "b": 2}) | weight of node 'b' is 2.0 | Modulo knows no weights: use Ring,
Modulo(3) | nodes is 3 | Write a list: ["a", "b"], or pass a
Maglev(["a"], table_size=100) | table_size is 100 | The default is 65537; 655373 and 6553621
Maglev(["a"], table_size="big") | table_size is 'big' | The default is 65537; 655373 and 6553621
Maglev(["a"], table_size=0) | table_size is 0 | The default is 65537; 655373 and 6553621
Maglev([]) | Maglev hashing needs a node with a weight above 0 and the topology has none | Add a node, or give one of
Slots([]) | an assignment of slots needs a node with a weight above 0 and the topology has none | Add a node, or
Slots("ab") | nodes is 'ab' | Put a single node in a list:
Slots(ring) | nodes is a Ring | Write a list:
Slots(table) | nodes is a Table | Write a list:
Slots.of_table(ring) | table is a Ring | Pass the table() of a placement.
Slots.of_table(table) | table is 'Table(284 ranges over 3 nodes, xxh3-64, epoch 1:69fbcd94)' | Export it from Slots,
# topology
Topology("abc") | nodes is 'abc' | Put a single node in a list: ["a"].
Topology(None) | nodes is None | Write a list: ["a", "b"], or pass a
Topology(["a"], cluster=3) | cluster is 3 | Pass a string; call str(...) if
Topology(["a"], cluster=np.array([])) | cluster is a ndarray | Pass a string
Topology(["a"], number="1") | epoch number is '1' | Count epochs up from 1.
Topology(["a"], number=-1) | epoch number is -1 | Count epochs up from 1.
Node(None) | node id is None | Pass a string; call str(...) if
Node("") | node id is '' | Give it a name; check for an extra
Node(3) | node id is 3 | Pass a string; call str(...) if
Node("a", zone="eu") | zone is 'eu' | Write zone=("eu", "rack1"), or zone=() for
Node("a", zone=None) | zone is None | Write zone=("eu", "rack1"), or zone=() for
Node("a", zone=("eu", 3)) | zone level is 3 | Pass a string; call str(...) if
Node("a", zone=np.array(["eu"])) | zone is a ndarray | Write zone=("eu", "rack1"), or zone=() for
Node("a", zone=np.array([])) | zone is a ndarray | Write zone=("eu", "rack1"), or zone=() for
Node("a", zone={"eu"}) | zone is a set | Write zone=("eu", "rack1"), or zone=() for
Node("a", weight="2") | weight of node 'a' is '2' | Weights are relative: give the ordinary
Node("a", weight=None) | weight of node 'a' is None | Weights are relative: give the ordinary
Node("a", weight=-1) | weight of node 'a' is -1 | Weights are relative: give the ordinary
Node("a b\\n") | node id is 'a b\\n' | Remove the character that is shown escaped, or
topology.add(["c", "d"]) | node is a list | Write Node("a", weight=2). To add a list,
topology.add("a") | node id is 'a' | Rename one of the two, or drop it.
topology.add(None) | node id is None | Pass a string; call str(...) if
topology.add("c", 2) | node id is 2 | Pass a string; call str(...) if
topology.without("z") | node id is 'z' | Add the node first, or use an id of the
topology.without(["a"]) | node id is a list | Pass one id, as a str. For a list, write
topology.without(Node("a")) | node id is a Node | Pass one id, as a str. For a list, write
topology.drain("z") | node id is 'z' | Add the node first, or use an id of the
topology.drain(["a"]) | node id is a list | Pass one id, as a str. For a list, write
topology.reweight("a", "2") | weight of node 'a' is '2' | Weights are relative: give the ordinary
topology.reweight("z", 2) | node id is 'z' | Add the node first, or use an id of the
topology.reweight("a", None) | weight of node 'a' is None | Weights are relative: give the ordinary
topology["z"] | node id is 'z' | Add the node first, or use an id of the
topology[0] | node id is 0 | Pass one id, as a str. For a list, write
topology.index("z") | node id is 'z' | Add the node first, or use an id of the
topology.index(0) | node id is 0 | Pass one id, as a str. For a list, write
# routing
ring.route(None) | key is None | Convert it: bytes(key) for buffers,
ring.route(1.0) | key is 1.0 | Convert it: bytes(key) for buffers,
ring.route(True) | key is True | Route int(key) or str(key), whichever is
ring.route(["k"]) | key is a list | Convert it: bytes(key) for buffers,
ring.route(("a", "b")) | key is a tuple | Convert it: bytes(key) for buffers,
ring.route({"id": 1}) | key is a dict | Convert it: bytes(key) for buffers,
ring.route(datetime.datetime.now()) | key is a datetime | Convert it: bytes(key) for buffers,
ring.route(bytearray(b"k")) | key is a bytearray | Convert it: bytes(key) for buffers,
ring.route(2**63) | key is 9223372036854775808 | Route str(key) for larger numbers.
ring.route(np.float64(1)) | key is a float64 | Convert it: bytes(key) for buffers,
ring.route(np.array(["a"])) | key is a ndarray | Convert it: bytes(key) for buffers,
ring.route(pd.Series(["a"])) | key is a Series | Convert it: bytes(key) for buffers,
ring.route(pd.Timestamp("2020-01-01")) | key is a Timestamp | Convert it: bytes(key) for buffers,
ring.route(np.datetime64("2020-01-01")) | key is a datetime64 | Convert it: bytes(key) for buffers,
ring.route(pd.NA) | key is a NAType | Convert it: bytes(key) for buffers,
ring["k"] | Ring has no [] | Write: ring.route('k')
ring.get_node("k") | Ring has no get_node | Write: ring.route("k")
ring.add_node("d") | Ring has no add_node | Write: ring =
ring.remove_node("a") | Ring has no remove_node | Write: ring =
ring.nodes | Ring has no nodes | Write: ring.topology.ids, or
ring.lookup("k") | Ring has no lookup | Write: ring.route("k")
ring.get("k") | Ring has no get | Write: ring.route("k")
ring.get_nodes("k") | Ring has no get_nodes | Write: ring.topology.ids, or
ring.route_many("k") | keys is 'k' | Put a single key in a list, or route() it.
ring.route_many(3) | keys is 3 | Put a single key in a list, or route() it.
ring.route_many(None) | keys is None | Put a single key in a list, or route() it.
ring.route_many(["a", None]) | key is None | Convert it: bytes(key) for buffers,
ring.route_many([["a"]]) | key is a list | Convert it: bytes(key) for buffers,
ring.route_many(["a", 1.0]) | key is 1.0 | Convert it: bytes(key) for buffers,
ring.route_many(["a"], threads=0) | threads is 0 | Leave it out for one.
ring.route_many(["a"], threads="2") | threads is '2' | Leave it out for one.
ring.route_many(np.array([1.0])) | buffer format of keys is 'd' | Convert them, say with astype(int) or
ring.route_many(np.array([True])) | buffer format of keys is '?' | Convert them, say with astype(int) or
ring.route_many(np.array([["a"]])) | dimensions of keys is 2 | Flatten it: keys.ravel().
ring.route_many(np.array(["2020"], dtype="datetime64[D]")) | key is a datetime64 | Convert it: bytes(key) for buffers,
ring.route_many(np.array(3)) | dimensions of keys is 0 | Flatten it: keys.ravel().
ring.route_many(np.array(["a", None], dtype=object)) | key is None | Convert it: bytes(key) for buffers,
ring.route_many(pd.Series([1.0])) | Arrow type of keys is 'g' | Cast it to text, binary or integers,
ring.route_many(pd.Series(["a", None])) | key at index 1 is None | Drop the nulls, or fill them.
ring.route_many(pd.Series([1, None])) | Arrow type of keys is 'g' | Cast it to text, binary or integers,
ring.route_many(pd.DataFrame({"k": ["a"]})) | Arrow type of keys is '+s' | Cast it to text, binary or integers,
ring.route_many(pd.Series(["a"], dtype="category")) | Arrow type of keys is 'dictionary-encoded' | Decode it: cast()
ring.route_many(pd.Series([True])) | Arrow type of keys is 'b' | Cast it to text, binary or integers,
ring.route_many(b"abc") | keys is b'abc' | Put a single key in a list, or route() it.
ring.route_indexes("k") | keys is 'k' | Put a single key in a list, or route() it.
ring.route_indexes(None) | keys is None | Put a single key in a list, or route() it.
ring.preference("k", 0) | count of nodes is 0 | Ask for the owner alone with 1.
ring.preference("k", -1) | count of nodes is -1 | Ask for the owner alone with 1.
ring.preference("k", 4) | 4 replicas wanted on distinct nodes, 3 eligible (a, b, c) | Add nodes, or ask for fewer
ring.preference("k", "2") | count of nodes is '2' | Ask for the owner alone with 1.
ring.preference("k", 1.5) | count of nodes is 1.5 | Ask for the owner alone with 1.
ring.preference("k", None) | count of nodes is None | Ask for the owner alone with 1.
ring.preference("k", np.int64(2)) | count of nodes is an int64 | Ask for the owner alone with 1.
ring.preference("k", True) | count of nodes is True | Ask for the owner alone with 1.
ring.preference("k", 2, spread="loose") | spread is 'loose' | Pick one of them.
ring.preference("k", 2, spread=None) | spread is None | Pick one of them.
ring.table(spread=np.array([])) | spread is a ndarray | Pick one of them.
plan(ring, ring, replicas=np.array([])) | count of nodes is a ndarray | Ask for the owner alone
ring.preference("k", 2, spread_level="zone") | spread_level is 'zone' | 0 is the outermost level of a zone.
ring.preference("k", 2, spread_level=9) | spread_level is 9 | 0 is the outermost level of a zone.
ring.preference(None, 2) | key is None | Convert it: bytes(key) for buffers,
ring.preference(["k"], 2) | key is a list | Convert it: bytes(key) for buffers,
ring.preference(2, "k") | count of nodes is 'k' | Ask for the owner alone with 1.
Ring(zoned).preference("k", 3) | 3 replicas wanted on distinct nodes, 2 eligible (a, b) | Add nodes, or ask for fewer
ring.table(0) | count of nodes is 0 | Ask for the owner alone with 1.
ring.table("2") | count of nodes is '2' | Ask for the owner alone with 1.
ring.table(4) | 4 replicas wanted on distinct nodes, 3 eligible (a, b, c) | Add nodes, or ask for fewer replicas.
ring.explain(None) | key is None | Convert it: bytes(key) for buffers,
ring.on(["a", "b"]) | topology is a list | Change the topology of the
ring.on(None) | topology is None | Change the topology of the
ring.on(ring) | topology is a Ring | Change the topology of the
ring.on("abc") | topology is 'abc' | Change the topology of the
ring.on(Topology()) | a ring needs a node with a weight above 0 and the topology has none | Add a node, or give one of
ring.owner_at("k") | position is 'k' | Route a key, or hash it first.
ring.owner_at(-1) | position is -1 | Route a key, or hash it first.
ring.owner_at(2**64) | position is 18446744073709551616 | Route a key, or hash it first.
ring.owner_at(1.5) | position is 1.5 | Route a key, or hash it first.
group_keys(ring, "k") | keys is 'k' | Put a single key in a list, or route() it.
group_keys("ring", ["k"]) | placement is 'ring' | Build one, say Ring(topology).
group_keys(["k"], ring) | keys is a Ring | Put a single key in a list, or route() it.
group_keys(Ring, ["k"]) | placement is an ABCMeta | Build one, say Ring(topology).
group_keys(ring, None) | keys is None | Put a single key in a list, or route() it.
group_places(ring, "k") | keys is 'k' | Put a single key in a list, or route() it.
group_places(topology, ["k"]) | placement is a Topology | Build one, say Ring(topology).
handover(ring, "b", "k") | new is 'b' | Build one, say Ring(topology).
handover(ring, Rendezvous(["x"]), None) | key is None | Convert it: bytes(key) for buffers,
handover(ring, ring, "k", replicas=0) | count of nodes is 0 | Ask for the owner alone with 1.
handover(topology, topology, "k") | old is a Topology | Build one, say Ring(topology).
# other placements
Directory(ring, exceptions={"k": "z"}) | node id is 'z' | Add the node first, or use an id of the
Directory(ring, exceptions=["k"]) | exceptions is a list | Write exceptions={"vip-tenant": "db-9"}.
Directory(ring, exceptions=None) | exceptions is None | Write exceptions={"vip-tenant": "db-9"}.
Directory(ring, exceptions="k") | exceptions is 'k' | Write exceptions={"vip-tenant": "db-9"}.
Directory(ring, exceptions={None: "a"}) | key is None | Convert it: bytes(key) for buffers,
Directory(["a"], exceptions={}) | base is a list | Build one, say Ring(topology).
Directory(ring, exceptions={"k": "a"}).with_exception("k", "z") | node id is 'z' | Add the node first, or use an id of
Directory(ring, exceptions={"k": "a"}).without_exception("j") | key is 'j' | The base places this key.
Directory(Ring, exceptions={"k": "a"}) | base is an ABCMeta | Build one, say Ring(topology).
Directory(ring, exceptions={"k": 1}) | node id is 1 | Pass one id, as a str. For a list, write
Ranges(["a", "b"], bounds=["m"], owners=["a"]) | owners is '1 of them' | n boundaries make n + 1 ranges: name the
Ranges(["a", "b"], bounds=["m", "c"], owners=["a", "b", "a"]) | boundary is 'c' | Sort the boundaries and drop
Ranges(["a", "b"], bounds="m", owners=["a", "b"]) | bounds is 'm' | A range is known by its place: list them
Ranges(["a", "b"], bounds=["m"], owners="ab") | owners is 'ab' | A range is known by its place: list them
Ranges(["a", "b"], bounds=["m"], owners=["a", "z"]) | node id is 'z' | Add the node first, or use an id of the
Ranges(["a", "b"], bounds=[None], owners=["a", "b"]) | key is None | Convert it: bytes(key) for buffers,
Ranges(["a", "b"], bounds=["m", 3], owners=["a", "b", "a"]) | boundary is 3 | Ints and text have no common order: use
Ranges(["a", "b"], bounds=None, owners=["a"]) | bounds is None | A range is known by its place: list them
Ranges(["a", "b"], bounds=["m"], owners=None) | owners is None | A range is known by its place: list them
Ranges(["a", "b"], bounds=["m"], owners=[1, 2]) | owners of a range is 1 | Name the leader first.
Ranges(["a", "b"], bounds=["m"], owners=["a", "b"]).scan("z", "a") | end of the scan is 'a' | Swap the two keys.
Ranges(["a", "b"], bounds=["m"], owners=["a", "b"]).route(3) | key is 3 | Ints and text have no common order: use
Ranges(["a", "b"], bounds=[5], owners=["a", "b"]).route("k") | key is 'k' | Ints and text have no common order: use
Ranges(["a", "b"], bounds=["m"], owners=["a", "b"]).keys_of("m") | range is 'm' | Pass a range that scan named.
Lists(["a", "b"], values={"a": "k"}) | values of 'a' is 'k' | Put a single value in a list: [value].
Lists(["a", "b"], values={"z": ["k"]}) | node id is 'z' | Add the node first, or use an id of the
Lists(["a", "b"], values={"a": ["k"], "b": ["k"]}) | value is 'k' | List it once, at its owner.
Lists(["a", "b"], values={"a": ["k"]}).route("j") | 'j' is in no list, and there is no default | Add it to the list
Lists(["a", "b"], values=["k"]) | values is a list | Write values={"db-eu": ["de", "fr"],
Lists(["a", "b"], values={"a": ["k"]}, default="z") | node id is 'z' | Add the node first, or use an id of the
Lists(["a", "b"], values={"a": [None]}) | key is None | Convert it: bytes(key) for buffers,
Lists(["a", "b"], values={"a": None}) | values of 'a' is None | Put a single value in a list: [value].
Composite(ring, width=0) | width is 0 | The width is the number of nodes per entity.
Composite(ring, width="4") | width is '4' | The width is the number of nodes per entity.
Composite(ring, period_seconds=0) | period_seconds is 0 | The period is the time for
Composite(ring, separator="") | separator is '' | Use "|".
Composite(ring, separator=None) | separator is None | Use "|".
Composite(["a"]) | base is a list | Build one, say Ring(topology).
Bounded(ring, headroom_thousandths=0.25) | headroom_thousandths is 0.25 | 50 caps a load at 1.05 times its share.
Bounded(ring, headroom_thousandths=-1) | headroom_thousandths is -1 | 50 caps a load at 1.05 times its share.
Bounded(["a"]) | placement is a list | Build one, say Ring(topology).
Bounded(ring).assign("k") | keys is 'k' | Put a single key in a list, or route() it.
Bounded(ring).assign(["k", "k"]) | keys is 'k' | Drop the repeated ones; a text is the
Bounded(ring).acquire("k", {}) | loads is a dict | Start with Loads.none(topology).
Bounded(ring).acquire("k", None) | loads is None | Start with Loads.none(topology).
Bounded(ring).acquire("k", Loads.none(topology)) | loads is 'Topology(2 nodes, no zones, epoch 1:9f6c299d)' | Move the
Bounded(ring).release("z", Loads.none(ring.topology)) | node id is 'z' | Add the node first, or use an id of the
Bounded(ring).release("a", Loads.none(ring.topology)) | node id is 'a' | Release each key once, where it is held.
Bounded(ring).assign(["k"]).route("j") | key is 'j' | Assign it with the others.
ChooseK(["a", "b"], order="ab") | order is 'ab' | Pass the `order` of the placement before.
PopularKeys(ring, popular={"k": 0}) | nodes of 'k' is 0 | 1 is the owner alone.
PopularKeys(ring, popular={"k": 9}) | 9 replicas wanted on distinct nodes, 3 eligible (a, b, c) | Add nodes, or ask
PopularKeys(ring, popular=["k"]) | popular is a list | Write popular={"news": 3}.
PopularKeys(ring, popular={"k": "2"}) | nodes of 'k' is '2' | 1 is the owner alone.
PopularKeys(ring, popular={"k": 2}).route("k", 7) | rng is 7 | Pass a random.Random.
PopularKeys(["a"], popular={"k": 2}) | base is a list | Build one, say Ring(topology).
hotkeys.salted("k", 0) | salts is 0 | A few salts per node are enough; 1 means
hotkeys.salted("k", "2") | salts is '2' | A few salts per node are enough; 1 means
hotkeys.salted(None, 2) | key is None | Convert it: bytes(key) for buffers,
hotkeys.salt("k", 2, None) | rng is None | Pass a random.Random.
hotkeys.popular_of(["k"], total=1, nodes=1, capacity=1) | counts is a list | Write {"news": 600}.
hotkeys.popular_of({"k": 5}, total=1, nodes=1, capacity=1) | count of 'k' is 5 | Count keys and total over the same
hotkeys.popular_of({"k": "5"}, total=1, nodes=1, capacity=1) | count of 'k' is '5' | Count keys and total over the
MultiProbe(["a"], probes=0) | probes is 0 | The default is 21; 1 is a plain ring.
MultiProbe(["a"], probes="21") | probes is '21' | The default is 21; 1 is a plain ring.
envoy.Envoy(["a"], minimum_ring_size=0) | minimum_ring_size is 0 | Envoy takes 1024 and 8388608 by default.
envoy.Envoy(["a"], hash_function="xxhash") | hash_function is 'xxhash' | Did you mean 'xx-hash'?
ketama.Ketama(["a"], layout="x") | layout of ketama is 'x' | Pick one of them.
kafka.Kafka(3) | nodes is 3 | Write a list: ["a", "b"], or pass a
kafka.partition("k", 0) | partitions is 0 | Pass the number of partitions of the
kafka.partition(None, 3) | key is None | Convert it: bytes(key) for buffers,
redis_slots.slot(None) | key is None | Convert it: bytes(key) for buffers,
redis_slots.RedisSlots(3) | nodes is 3 | Write a list:
placement.get("rign") | placement is 'rign' | Did you mean 'ring'?
placement.get(None) | placement is None | Pick one of them.
placement.get(Ring) | placement is an ABCMeta | Pick one of them.
placement.get("ring")("abc") | nodes is 'abc' | Put a single node in a list: ["a"].
placement.get("ring")(["a"], vnode=3) | option of ring is 'vnode' | Did you mean 'vnodes'?
placement.get("slots")(3) | nodes is 3 | Write a list:
# hashers
hashers.get("x") | hasher is 'x' | Pick one of them.
hashers.get(None) | hasher is None | Pick one of them.
hashers.get("md5", key=b"k") | hasher key is '(a secret)' | Pass key= to siphash-2-4, and to it alone.
hashers.get("siphash-2-4", key="secret") | hasher key is '(a secret)' | Make one with secrets.token_bytes(16).
hashers.get("siphash-2-4", key=b"short") | hasher key is '(a secret)' | Make one with secrets.token_bytes(16).
hashers.get()("k") | data to hash is 'k' | Encode text first: text.encode().
hashers.get()(None) | data to hash is None | Encode text first: text.encode().
hashers.resolve(3) | hasher is 3 | Call hashers.names() for the names.
hashers.FixedHasher("x", 64, None) | digest of a hasher is None | Write def digest(data): ...
hashers.FixedHasher("x", 0, lambda d: 1) | bits of a hasher is 0 | Declare the bits of the hash.
hashers.FixedHasher("", 64, lambda d: 1) | label of a hasher is '' | Name the hash; tables keep the name.
Ring(["a"], hasher=hashers.FixedHasher("x", 64, lambda d: "1")) | hash is '1' | Mask it in the hasher, or declare the
Ring(["a"], hasher=hashers.FixedHasher("x", 64, lambda d: 2**70)) | hash is 1180591620717411303424 | Mask it in the
Ring(["a"], hasher=hashers.FixedHasher("x", 64, lambda d: -1)) | hash is -1 | Mask it in the hasher, or declare the
Ring(["a"], hasher=hashers.FixedHasher("x", 16, lambda d: 1)) | hasher is 'x' | With too few positions, nodes
Ring(["a"], hasher=hashers.FixedHasher) | hasher is a type | Call hashers.names() for the names.
# names
apportion.Maglev | module 'apportion' has no attribute 'Maglev' | Write: from apportion.placement.maglev
apportion.Directory | module 'apportion' has no attribute 'Directory' | Write: from apportion.placement.directory
apportion.HashRing | module 'apportion' has no attribute 'HashRing' | Did you mean 'Ring'?
apportion.MultiProbe | module 'apportion' has no attribute 'MultiProbe' | Write: from apportion.placement.multiprobe
apportion.Group | module 'apportion' has no attribute 'Group' | Did you mean 'groups'?
apportion.Rings | module 'apportion' has no attribute 'Rings' | Did you mean 'Ring'?
apportion.placement.Maglev | module 'apportion.placement' has no attribute 'Maglev' | Write: from
apportion.placement.maglevs | module 'apportion.placement' has no attribute 'maglevs' | Did you mean 'maglev'?
"""


@pytest.mark.parametrize(("call", "problem", "hint"), mistakes(MISTAKES))
def test_a_mistake_names_the_value_an_expectation_and_the_next_step(call, problem, hint):
    check_refused(call, problem, hint)
