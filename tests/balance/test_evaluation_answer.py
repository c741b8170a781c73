"""The answer of an evaluation is true of the results: each sentence, in each case."""

from dataclasses import replace

import pytest

from apportion import Node, Topology
from apportion.balance import Resource
from apportion.balance.evaluation import (
    BalancerTrial,
    Cluster,
    Entrant,
    Findings,
    Measures,
    Movement,
    Refusal,
    TrialResult,
    make_scenario,
    ranking,
)
from apportion.balance.scores import LoadScore

ZONED = Topology([Node(f"n{number}", zone=(f"z{number % 3}",)) for number in range(6)])


def result(balancer, scenario="disable-10%", *, moved=10, lacking=0, deviation=2.0):
    score = LoadScore(gap=1.0, deviation=deviation, peak_ratio=1.0)
    measures = Measures(
        partitions=score, leaders=score, partitions_deviation_each=0.0, leaders_deviation_each=0.0,
        partitions_gap_each=0.0, leaders_gap_each=0.0, lacking=lacking, least_partitions_deviation=0.0,
        least_leaders_deviation=0.0,
    )  # fmt: skip
    movement = Movement() if scenario == "static" else Movement(replicas=100, partitions=50, moved=moved)
    return TrialResult(
        balancer=balancer, cluster="shop", scenario=scenario, measures=measures, movement=movement, seconds=0.0
    )


def findings(*results, absent=(), topology=ZONED, replicas=2, scenarios=("disable-10%",), entrants=()):
    cluster = Cluster(name="shop", topology=topology, resources={"orders": Resource(50, replicas)})
    names = [*dict.fromkeys(each.balancer for each in results), *entrants]
    trial = BalancerTrial(
        clusters=[(cluster, [make_scenario(name, topology, seed=1) for name in scenarios])],
        entrants=[Entrant(name, lambda *_: None) for name in names],
        absent=dict.fromkeys(absent, "it is not installed"),
    )
    return Findings.of(trial, list(results), [])


def test_the_balancer_that_moves_fewest_is_named_first_and_the_most_even_one_beside_it():
    found = findings(result("a", moved=12, deviation=1.0), result("b", moved=10, deviation=2.0))
    assert (
        "For shop, 6 nodes in 3 zones, b keeps the zone rule and moves 10.00% of the replicas in 'disable-10%'. "
        "No other such balancer moves so few. a is the most even: STDEV 1.00 instead of 2.00."
    ) == found.answer
    assert ["b", "a"] == found.balancers


def test_balancers_that_are_printed_alike_are_as_good():
    found = findings(result("a", deviation=2.001), result("b"), result("c", moved=30, deviation=2.1))
    assert (
        "a keeps the zone rule and moves 10.00% of the replicas in 'disable-10%'. b moves as few. "
        "b is as even, and none is more even: STDEV 2.00."
    ) in found.answer


def test_of_equal_moves_the_more_even_one_is_first_and_says_so():
    found = findings(result("a", deviation=3.0), result("b"))
    assert "b keeps the zone rule" in found.answer
    assert found.answer.endswith("a moves as few. b is also the most even: STDEV 2.00, the next 3.00.")


def test_a_balancer_that_lacks_replicas_is_never_the_best_of_those_that_lack_none():
    found = findings(result("a", moved=1, lacking=7, deviation=0.0), result("b"))
    assert found.answer.endswith(
        "No other balancer was seen to keep the zone rule in every scenario. a lacks replicas or zones in 7 partitions."
    )
    assert ["b", "a"] == found.balancers


def test_where_no_balancer_keeps_the_zone_rule_none_is_said_to():
    found = findings(result("a", lacking=7), result("b", lacking=1))
    assert (
        "For shop, 6 nodes in 3 zones, no measured balancer keeps the zone rule in every scenario. "
        "b lacks replicas or zones in 1 partition. a lacks replicas or zones in 7 partitions."
    ) == found.answer


def test_a_single_balancer_is_compared_with_no_other():
    assert findings(result("a")).answer.endswith("in 'disable-10%'. No other balancer was measured.")


def test_balancers_that_are_not_here_or_were_refused_everywhere_are_named():
    found = findings(result("a"), absent=("swift",), entrants=("kafka.sticky",))
    assert found.answer.endswith("Not measured: swift and kafka.sticky.")


def test_a_balancer_that_was_refused_somewhere_is_behind_those_that_were_not():
    found = findings(result("a"), result("a", "add-1%"), result("b", moved=1))
    assert "a keeps the zone rule and moves 10.00% of the replicas per change, on average of 2." in found.answer
    assert found.answer.endswith(
        "No other balancer was seen to keep the zone rule in every scenario. b was not measured in every scenario."
    )


def test_where_each_was_refused_somewhere_none_is_said_to_keep_the_rule():
    found = findings(result("a"), result("b", "add-1%"))
    assert "no balancer was measured in every scenario." in found.answer
    assert "keeps" not in found.answer
    many = findings(result("a"), result("a", "static", lacking=2), scenarios=("static", "disable-10%"))
    assert many.answer.endswith("a lacks replicas or zones in 2 partitions, over all scenarios.")


def test_without_a_change_the_most_even_is_first():
    found = findings(result("a", "static", deviation=3.0), result("b", "static"), scenarios=("static",))
    assert (
        "For shop, 6 nodes in 3 zones, b keeps the zone rule. b is the most even: STDEV 2.00, the next 3.00."
    ) == found.answer


def test_without_any_result_the_answer_says_so():
    found = findings(absent=("swift",), entrants=("a",))
    assert "For shop, 6 nodes in 3 zones, no balancer could be measured. Not measured: swift and a." == found.answer


def test_where_no_zone_matters_no_zone_rule_is_claimed():
    assert "zone" not in findings(result("a"), result("b"), topology=Topology(list("abcdef"))).answer
    assert "zone rule" not in findings(result("a"), result("b"), replicas=1).answer


def test_a_scenario_with_too_few_zones_for_the_rule_is_named():
    found = findings(result("a"), replicas=3, scenarios=("zone-loss", "static"))
    assert found.answer.endswith("In zone-loss, too few zones are up for the whole rule.")


def test_several_clusters_and_several_runs_of_one_are_told_apart():
    found = findings(result("a"))
    cluster, scenarios = found.trial.clusters[0]
    runs = replace(found.trial, clusters=[(cluster, scenarios), (replace(cluster, name="shop-2"), scenarios)])
    assert Findings.of(runs, [result("a")], []).answer.startswith("For 6 nodes in 3 zones in 2 runs, a ")
    other = replace(cluster, topology=Topology(["a", "b"]))
    two = replace(found.trial, clusters=[(cluster, scenarios), (other, scenarios)])
    assert Findings.of(two, [result("a")], []).answer.startswith("For 2 clusters, a ")


def test_ten_per_cent_sorts_after_nine():
    ranked = ranking([result("ten", moved=10), result("nine", moved=9), result("all", moved=100)])
    assert ["nine", "ten", "all"] == [each.balancer for each in ranked]


def test_a_notebook_shows_the_answer_and_a_line_for_each_balancer_and_the_text_is_short():
    found = findings(result("<b>"), *(result(f"balancer-{number:03}") for number in range(100)))
    fragment = found._repr_html_()
    assert "&lt;b&gt;" in fragment
    assert "<b>" not in fragment
    assert "No other such" not in fragment
    assert "<p>… 81 more</p>" in fragment
    for value in (found, found.trial, found.lines[0], found.results[0], ranking(found.results)[0]):
        assert len(repr(value)) <= 200
    assert Refusal(balancer="a", cluster="c", scenario="s", reason="x" * 1000).reason not in repr(found)


@pytest.mark.parametrize("number", [1, 2, 5])
def test_every_sentence_of_an_answer_is_short(number):
    names = [f"balancer-{place}" for place in range(number)]
    for lacking in (0, 3):
        text = findings(*(result(name, lacking=lacking) for name in names), absent=names).answer
        assert max(len(sentence.split()) for sentence in text.split(". ")) <= 25
