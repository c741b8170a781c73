"""The clusters of the preset are those that the docstring says, and always the same; each is checked when built."""

from collections import Counter

import pytest

from apportion import Node, Topology
from apportion.balance import Resource
from apportion.balance.evaluation import SHAPES, Cluster, production_like
from apportion.balance.evaluation.draws import Draws
from apportion.errors import InvalidInput, NoNodes, NotEnoughNodes
from apportion.model.assignment import MAX_PARTITIONS

SEEDS = (1, 2, 3)
CASES = [(shape, seed) for shape in SHAPES for seed in SEEDS]


def zone_sizes(topology):
    return sorted(Counter(node.zone for node in topology).values())


@pytest.mark.parametrize(("shape", "seed"), CASES)
def test_a_cluster_has_its_shape(shape, seed):
    cluster = production_like(shape, seed=seed)
    sizes = zone_sizes(cluster.topology)
    assert (shape.nodes, shape.zones, shape.resources) == (len(cluster.topology), len(sizes), len(cluster.resources))
    assert shape.is_lopsided == (sizes[-1] - sizes[0] > 1)
    assert shape.is_weighted == (len({node.weight for node in cluster.topology}) > 1)
    for name, resource in cluster.resources.items():
        assert 8 <= cluster.count(name) <= 1024
        assert resource.replicas in (2, 3)


def test_the_eight_span_what_the_published_evaluation_names():
    nodes, zones, resources = zip(*((shape.nodes, shape.zones, shape.resources) for shape in SHAPES), strict=True)
    assert (20, 30, 40, 50, 60, 80, 120, 200) == nodes, "the figures in docs/balance/evaluate.md are those of these"
    spans = [(min(each), max(each)) for each in (nodes, zones, resources)]
    assert (8, [(20, 200), (3, 10), (10, 60)]) == (len(SHAPES), spans)
    assert [1, 1] == [sum(shape.is_lopsided for shape in SHAPES), sum(shape.is_weighted for shape in SHAPES)]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_zone_is_so_large_that_three_replicas_could_not_fill_it(seed):
    for shape in SHAPES:
        weights = Counter()
        topology = production_like(shape, seed=seed).topology
        for node in topology:
            weights[node.zone] += node.weight
        assert 3 * max(weights.values()) <= weights.total() * 1.0001


def test_as_many_resources_are_small_as_large():
    sizes = [
        resource.partitions
        for seed in range(1, 41)
        for resource in production_like(SHAPES[-1], seed=seed).resources.values()
    ]
    octaves = Counter(size.bit_length() for size in sizes if size < 1024)
    assert set(range(4, 11)) == set(octaves)
    assert min(octaves.values()) > 0.75 * len(sizes) / 7
    assert max(octaves.values()) < 1.25 * len(sizes) / 7


def test_a_seed_makes_the_same_cluster_for_ever():
    cluster = production_like(SHAPES[0], seed=1)
    assert cluster == production_like(SHAPES[0], seed=1)
    assert cluster.topology != production_like(SHAPES[0], seed=2).topology
    assert "41c448a90067bacb" == cluster.topology.epoch.digest[:16]
    assert [(116, 3), (271, 3), (180, 3), (133, 2), (79, 2), (216, 3), (237, 2), (187, 3), (22, 3), (19, 2)] == [
        (each.partitions, each.replicas) for each in cluster.resources.values()
    ]


@pytest.mark.parametrize(
    ("place", "name", "digest"),
    [
        (0, "20-nodes-1", "41c448a90067bacb"),
        (1, "30-nodes-1", "0bcf4af195b52bf8"),
        (2, "40-nodes-1", "606db3ecaa293db4"),
        (3, "50-nodes-1", "0f84775468829d6a"),
        (4, "60-nodes-lopsided-1", "4ea4477822fdb253"),
        (5, "80-nodes-weighted-1", "df93456b7e362d58"),
        (6, "120-nodes-1", "e9978f211a3f7993"),
        (7, "200-nodes-1", "37633e72bfd19d06"),
    ],
)
def test_a_seed_makes_the_same_nodes_of_every_shape_for_ever(place, name, digest):
    made = production_like(SHAPES[place], seed=1)
    assert (name, digest) == (made.name, made.topology.epoch.digest[:16])


def test_one_node_in_three_of_a_lopsided_cluster_is_in_a_zone_that_is_drawn():
    (shape,) = (shape for shape in SHAPES if shape.is_lopsided)
    away = sum(
        node.zone != (f"zone-{place % shape.zones}",)
        for seed in range(40)
        for place, node in enumerate(production_like(shape, seed=seed).topology)
    )
    drawn_ratio = away / (40 * shape.nodes) * shape.zones / (shape.zones - 1)  # some are drawn where they were
    assert 1 / 3 == pytest.approx(drawn_ratio, abs=0.04)


@pytest.mark.parametrize(("drawn", "partitions"), [(lambda limit: 0, 8), (lambda limit: limit - 1, 1024)])
def test_the_least_draw_makes_eight_partitions_and_the_highest_1024(drawn, partitions, monkeypatch):
    monkeypatch.setattr(Draws, "below", lambda self, limit: drawn(limit))
    made = production_like(SHAPES[0], seed=1)
    assert {partitions} == {resource.partitions for resource in made.resources.values()}


def test_draws_are_even_and_never_reach_their_limit():
    draws = Draws(7, "test")
    counts = Counter(draws.below(3) for _ in range(3000))
    assert {0, 1, 2} == set(counts)
    assert min(counts.values()) > 900
    assert ["a", "b", "c"] == sorted(draws.some_of("abc", 3))


@pytest.mark.parametrize("seed", [-1, 2**63, True, "1", 1.0])
def test_a_seed_that_is_none_is_refused(seed):
    with pytest.raises(InvalidInput, match="seed is "):
        production_like(SHAPES[0], seed=seed)
    assert 20 == len(production_like(SHAPES[0], seed=2**63 - 1).topology)


def cluster(resources, nodes=("a", "b", "c")):
    return Cluster(name="c", topology=Topology(nodes), resources=resources)


def test_more_replicas_than_zones_are_refused_with_the_name_of_the_resource():
    nodes = [Node(name, zone=(zone,)) for name, zone in (("a", "x"), ("b", "x"), ("c", "y"))]
    with pytest.raises(NotEnoughNodes, match="resource orders: 3 replicas wanted in distinct zones, 2 eligible"):
        cluster({"orders": Resource(8, 3)}, nodes)


@pytest.mark.parametrize(
    ("resources", "error", "words"),
    [
        ({}, InvalidInput, "resources is 0"),
        ({"r": Resource(0, 1)}, InvalidInput, "partitions of resource r is 0"),
        ({"r": Resource(True, 1)}, InvalidInput, "partitions of resource r is True"),
        ({"r": Resource(100_001, 1)}, InvalidInput, "partitions of resource r is 100001"),
        ({"r": Resource(8, 0)}, InvalidInput, "replicas of resource r is 0"),
        ({"r": Resource(8, 101)}, InvalidInput, "replicas of resource r is 101"),
        ({"r": Resource(8, 4)}, NotEnoughNodes, "resource r: 4 replicas wanted in distinct zones, 3 eligible"),
        ({"": Resource(8, 1)}, InvalidInput, "resource is ''"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(resources, error, words):
    with pytest.raises(error, match=words):
        cluster(resources)


def test_more_partitions_in_all_than_an_assignment_holds_are_refused_with_the_cap():
    most, rest = divmod(MAX_PARTITIONS, 100_000)
    resources = {f"r{number}": Resource(100_000, 1) for number in range(most)} | {"rest": Resource(rest, 1)}
    assert MAX_PARTITIONS == sum(map(cluster(resources).count, resources))
    with pytest.raises(
        InvalidInput, match="partitions of all resources together is 16777217, expected at most 16777216"
    ):
        cluster(resources | {"one": Resource(1, 1)})


def test_a_cluster_of_nodes_that_all_drain_is_refused():
    with pytest.raises(NoNodes, match="an evaluation"):
        cluster({"r": Resource(8, 1)}, [Node("a", weight=0)])
