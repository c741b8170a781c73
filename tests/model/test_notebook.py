"""A plan and an assignment show themselves in a notebook as a small, escaped table."""

import re
from html.parser import HTMLParser

from apportion import Assignment, Node, Ring, Topology, balance, plan
from apportion.model.notebook import MOST_ROWS
from apportion.placement.ranges import Ranges

HOSTILE = Node("<script>alert('a')</script>&", zone=("<b>",))


class Cells(HTMLParser):
    def __init__(self, fragment):
        super().__init__()
        self.open, self.tags, self.cells = [], set(), []
        self.feed(fragment)
        assert [] == self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        if tag == "tr":
            self.cells.append([])

    def handle_endtag(self, tag):
        assert tag == self.open.pop()

    def handle_data(self, data):
        if self.open[-1] in ("td", "th"):
            self.cells[-1].append(data)


def test_a_plan_shows_its_sentence_and_the_shares_of_each_node():
    ring = Ring(["a", "b"])
    moved = plan(ring, ring.on(ring.topology.add("c")))
    fragment = moved._repr_html_()
    rows = Cells(fragment).cells
    assert ["node", "share before", "share after", "gains", "gives"] == rows[0]
    assert list(moved.per_node) == [row[0] for row in rows[1:]]
    assert f"{moved.per_node['c'].gained_ratio:.2%}" == rows[3][3]
    assert str(moved).replace(">", "&gt;") in fragment


def test_a_plan_over_bytes_has_no_shares_to_show():
    old, new = (Ranges(["a", "b"], bounds=[bound], owners=["a", "b"]) for bound in ("g", "k"))
    assert [] == Cells(plan(old, new)._repr_html_()).cells


def test_an_assignment_shows_how_many_partitions_each_node_holds_and_leads():
    assignment = Assignment(topology=Topology([Node("a", zone=("eu", "r1")), "b"]), rows=((0, 1), (1,)))
    rows = Cells(assignment._repr_html_()).cells
    assert ["node", "zone", "weight", "partitions", "leads"] == rows[0]
    assert [["a", "eu/r1", "1", "1", "1"], ["b", "1", "2", "1"]] == rows[1:]


def test_names_are_escaped_and_colours_left_to_the_page():
    topology = Topology([HOSTILE, Node("b")])
    for shown in (balance.slots(topology), plan(Ring(["b"]), Ring(topology))):
        fragment = shown._repr_html_()
        assert {"div", "p", "code", "table", "tr", "th", "td"} == Cells(fragment).tags
        assert not re.search(r"(?i)color|background|http|src=|href=", fragment)


def test_many_nodes_are_cut():
    fragment = balance.slots(Topology(map(str, range(1000))))._repr_html_()
    assert 1 + MOST_ROWS == len(Cells(fragment).cells)
    assert "<p>… 980 more</p>" in fragment
    assert len(fragment) < 8000
