"""The answer of a comparison is true of the rows, the best row is first, and a row says whether zones are kept."""

from dataclasses import replace
from random import Random

import pytest

from apportion import Jump, Modulo, Node, Rendezvous, Ring, Slots, Topology, balance
from apportion.balance.comparison import KeyComparison, KeyTrial, PlacementRow, evenness
from apportion.errors import CannotPlace
from apportion.model.phrases import listed

ZONED = Topology([Node(f"n{number}", zone=(f"z{number % 3}",)) for number in range(6)])
PLAIN = Topology(list("abcdef"))
KEYS = [b"key-%d" % number for number in range(600)]


def trial_of(topology=PLAIN):
    return KeyTrial.of(topology, KEYS)


def row(name, *, variation=0.01, stray=0.0, lacking=None, last=False):
    return PlacementRow(
        placement=name, max_over_mean=1.1, variation=variation, stray=stray, lacking_ratio=lacking, is_last_only=last
    )


def comparison(*rows, topology=PLAIN):
    return KeyComparison(trial_of(topology), rows)


def test_two_samples_of_exact_shares_differ_by_more_than_chance_once_in_twenty_times():
    topology, random = Topology(f"n{number}" for number in range(20)), Random(1)
    trial, found = KeyTrial.of(topology, KEYS * 5), []
    for _ in range(300):
        pair = [evenness(random.choices(topology.ids, k=len(trial.keys)), topology).variation for _ in range(2)]
        found.append(abs(pair[0] - pair[1]) > trial.chance_difference)
    assert 0.01 < sum(found) / len(found) < 0.1


def test_a_placement_with_a_better_property_goes_before_a_more_even_one():
    rows = [
        row("even", variation=0.02, lacking=0.0),
        row("uneven", variation=0.9, lacking=0.0),
        row("strays", stray=0.01, lacking=0.0),
        row("last", lacking=0.0, last=True),
        row("one-zone", lacking=0.001),
        PlacementRow(placement="absent", refused="no."),
    ]
    expected = [each.placement for each in rows]
    assert expected == [each.placement for each in comparison(*reversed(rows), topology=ZONED).rows]


def test_the_best_is_named_first_and_its_equals_within_chance():
    found = comparison(row("b", variation=0.02), row("a", variation=0.01), row("c", variation=0.9))
    assert (
        "For your 6 nodes, a can lose any node and moves no key without need. "
        "b does so too, and is as even within chance."
    ) == found.answer


def test_a_placement_that_is_less_even_than_chance_explains_is_no_equal():
    chance = trial_of().chance_difference
    far, near = (comparison(row("a"), row("b", variation=0.01 + factor * chance)).answer for factor in (1.01, 0.99))
    assert far.endswith("No other such placement is as even.")
    assert near.endswith("b does so too, and is as even within chance.")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (row("jump", last=True, lacking=0.0), "jump is as even, but only its last node can leave."),
        (row("modulo", stray=0.5, lacking=0.0), "modulo is as even, but moves 50.00% of the keys without need."),
        (row("jump", last=True, lacking=1.0), "jump is as even, but does not keep the zone rule."),
    ],
)
def test_a_placement_as_even_as_the_best_is_named_with_the_reason_that_it_is_behind(other, words):
    found = comparison(row("ring", lacking=0.0), other, topology=ZONED)
    assert (
        "For your 6 nodes in 3 zones, ring keeps the zone rule, can lose any node, and moves no key without need. "
        f"No other measured placement does so. {words}"
    ) == found.answer


def test_a_placement_that_is_behind_and_more_even_is_called_so():
    assert "jump is more even, but only its last node can leave." in (
        comparison(row("ring", variation=0.9), row("jump", last=True)).answer
    )


def test_reasons_of_several_placements_are_one_sentence_with_the_span():
    found = comparison(row("ring"), row("maglev", stray=0.002), row("modulo", stray=0.5), row("kafka", stray=0.5))
    assert "maglev, kafka and modulo are as even, but move 0.20% to 50.00% of the keys without need." in found.answer
    same = comparison(row("ring"), row("modulo", stray=0.5), row("kafka", stray=0.5)).answer
    assert "kafka and modulo are as even, but move 50.00% of the keys without need." in same


def test_where_no_placement_keeps_the_zone_rule_none_is_said_to():
    found = comparison(row("jump", lacking=1.0, last=True), row("modulo", lacking=1.0, stray=0.5), topology=ZONED)
    assert found.answer.startswith("For your 6 nodes in 3 zones, no measured placement keeps the zone rule. modulo ")


def test_a_best_placement_with_faults_is_described_with_them():
    found = comparison(row("jump", last=True, stray=0.25))
    assert (
        "For your 6 nodes, jump can lose only its last node and moves 25.00% of the keys without need. "
        "No other placement was measured."
    ) == found.answer


def test_without_a_measured_placement_the_answer_says_so():
    found = comparison(PlacementRow(placement="lists", refused="no."))
    assert "For your 6 nodes, no placement could be measured." == found.answer
    assert {"no.": ["lists"]} == found.refusals


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_every_sentence_of_an_answer_is_short(rows):
    for lacking, last, stray in ((0.0, False, 0.0), (1.0, True, 0.5)):
        best = [row(f"placement_{number}", lacking=lacking, last=last, stray=stray) for number in range(rows)]
        others = [row(f"other_{number}", lacking=1.0, last=True, stray=0.9) for number in range(rows)]
        text = comparison(*best, *others, topology=ZONED).answer
        assert max(len(sentence.split()) for sentence in text.split(". ")) <= 25


def test_a_row_counts_the_keys_without_two_owners_in_distinct_zones():
    trial = trial_of(ZONED)
    assert [0.0, 1.0, 1.0] == [trial.row(kind(ZONED)).lacking_ratio for kind in (Rendezvous, Jump, Modulo)]
    slots = Slots(balance.slots(ZONED))
    replicated = Slots(balance.optimal(4096, 2, ZONED))
    assert (1.0, 0.0) == (trial.row(slots).lacking_ratio, trial.row(slots, replicated).lacking_ratio)
    crossed = Slots(balance.optimal(4096, 2, Topology(ZONED.ids)))
    assert 0 < trial.row(slots, crossed).lacking_ratio < 1


@pytest.mark.parametrize(
    "topology",
    [
        PLAIN,
        Topology([Node("a", zone=("z",)), Node("b", zone=("z",))]),
        Topology([Node("a", zone=("y",)), Node("c", zone=("y",)), Node("b", zone=("z",), weight=0)]),
    ],
)
def test_without_two_zones_there_is_no_zone_rule(topology):
    trial = trial_of(topology)
    assert (False, None) == (trial.has_zones, trial.row(Ring(topology)).lacking_ratio)


def test_a_row_says_whether_only_the_last_node_can_leave():
    trial = trial_of()
    assert [True, False, False] == [trial.row(kind(PLAIN)).is_last_only for kind in (Jump, Modulo, Ring)]


def test_a_placement_that_cannot_change_has_no_row():
    with pytest.raises(CannotPlace):
        trial_of().row(Jump(list(reversed(PLAIN.ids))))


def test_a_notebook_shows_the_answer_and_a_line_for_each_placement_and_the_text_is_short():
    trial = trial_of(ZONED)
    rows = [trial.row(Ring(ZONED), name="<b>"), trial.row(Jump(ZONED)), PlacementRow(placement="x", refused="no.")]
    found = KeyComparison(trial, rows)
    fragment = found._repr_html_()
    assert found.answer.replace("<", "&lt;").replace(">", "&gt;") in fragment
    assert [2, 0] == [fragment.count("</td><td") // 6, fragment.count("<b>")]
    assert "lacking" in fragment
    assert "lacking" not in KeyComparison(trial_of(), [trial_of().row(Ring(PLAIN))])._repr_html_()
    for value in (found, trial, *rows, replace(rows[0], refused="x" * 999)):
        assert len(repr(value)) <= 200


def test_few_names_are_all_listed_and_many_are_counted():
    assert ["a, b, c and d", "a, b, c and 2 more"] == [listed("abcd"), listed("abcde")]


def test_of_two_nodes_chance_explains_twice_the_standard_error_of_one_share():
    trial = trial_of(Topology(["a", "b"]))
    assert pytest.approx((1 / len(KEYS)) ** 0.5) == trial.chance_variation
    assert pytest.approx(2 * trial.chance_variation) == trial.chance_difference
