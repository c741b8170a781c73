"""The page of `compare --html`: one file that fetches and runs nothing, shows names as text, and is never too large."""

import re
import shlex
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from apportion import Topology, hashers
from apportion.balance.comparison import KeyComparison, KeyTrial, PlacementRow
from apportion.console.compare import command as compare
from apportion.console.compare.page import page_of
from apportion.console.pages.charts import LABEL_CELLS, Bar, bars, columns, shortened
from apportion.console.pages.parts import document
from apportion.placement import catalog
from tests.console.page_reading import parsed
from tests.console.running import refused, run, written

HOSTILE = "<img src=x onerror=alert(1)>"
PLACEMENTS = ("jump", "ketama", "ranges", "ring", "slots")
MOST_ELEMENTS = 3000
FIGURES = {"max_over_mean": 1.25, "variation": 0.125, "moved_on_add": 0.5, "moved_on_remove": 0.25}


def trial_of(topology, keys=1000):
    """Return a trial over made-up keys."""
    return KeyTrial.of(topology, [b"%d" % number for number in range(keys)], hashers.get())


def row_of(name, topology, seed=0, **figures):
    """Return a row with made-up figures and loads."""
    random = Random(seed)
    return PlacementRow(
        placement=name, **(FIGURES | figures), loads={node.id: random.randrange(100) for node in topology}
    )


def page(topology, placements=("ring", "slots"), *, baselines=("random",), source="made-up keys", command="apportion"):
    """Return a page as an element, and its bytes."""
    rows = [row_of(name, topology, seed) for seed, name in enumerate(placements)]
    below = [PlacementRow(placement=name, **FIGURES, why_not="it is not enough") for name in baselines]
    data = page_of(KeyComparison(trial_of(topology), rows), below, source=source, command=command)
    return parsed(data), data


@pytest.fixture(scope="module")
def written_page(tmp_path_factory):
    """What the command wrote, with a hostile node, and what it printed. The live test measures the whole catalog."""
    folder = tmp_path_factory.mktemp("page")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(catalog, "names", lambda: PLACEMENTS)
    nodes = f"a,{HOSTILE},größe"
    written(folder, "keys & more", "".join(f"k{number}\n" for number in range(300)))
    process = run("compare", "--nodes", nodes, "--keys", "keys & more", "--html", "page.html", folder=folder)
    monkeypatch.undo()
    assert 0 == process.returncode, process.stderr
    return (folder / "page.html").read_bytes(), process.stdout.decode()


@pytest.mark.slow
def test_the_command_says_what_it_wrote_and_shows_every_placement_and_node(written_page):
    data, printed = written_page
    root = parsed(data)
    assert "saved page.html" == printed.splitlines()[-1]
    for name in (*PLACEMENTS, "a", HOSTILE, "größe", "300 keys of keys & more", "key ranges", "single node"):
        assert name in root.text, name


@pytest.mark.slow
def test_the_page_holds_the_command_that_makes_it_again(written_page):
    (command,) = parsed(written_page[0]).find("pre")
    expected = ["apportion", "compare", "--nodes", f"a,{HOSTILE},größe", "--keys", "keys & more", "--html", "page.html"]
    assert expected == shlex.split(command.text)


def test_the_figures_on_the_page_are_those_that_were_printed(written_page):
    data, printed = written_page
    (table,) = [each for each in parsed(data).find("table") if "Every figure" in each.text]
    shown = [[cell.text for cell in line.children] for line in table.find("tr")][1:]
    for placement, _, *figures in shown[:-1]:
        (line,) = [line.split() for line in printed.splitlines() if line.split()[:1] == [placement]]
        assert line[1:6] == figures[:5]


@pytest.mark.parametrize("hostile", [HOSTILE, "</style><script>alert(1)</script>", "\" onload='alert(1)", "&lt;b&gt;"])
@pytest.mark.parametrize("nodes", [3, 400])
def test_a_name_from_outside_is_text_wherever_it_stands(hostile, nodes):
    ids = ["!first", *(f"n{number}" for number in range(nodes - 2))]
    topology = Topology([*ids, "~~" + hostile], cluster=hostile)
    root, _ = page(topology, source=f"keys of {hostile}", command=f"apportion {hostile}")
    plain, _ = page(Topology([*ids, "~~last"], cluster="c"), source="keys", command="c")
    assert root.text.count(hostile) >= 3
    assert shapes(plain) == shapes(root)


def shapes(root):
    """Return the tags of a page in order, and how they are nested; a name cut short for a chart has a title of it."""
    return [(e.tag, len(e.children)) for e in root.all() if e.tag not in ("title", "text")]


@dataclass(frozen=True)
class OddHasher:
    """A hash function of another package, with a label of its liking."""

    label: str
    bits: int = 64

    def digest(self, data):
        return len(data)

    __call__ = digest


@pytest.mark.parametrize("hostile", [HOSTILE, "\" onload='alert(1)"])
def test_names_of_placements_and_hash_functions_are_text_too(hostile):
    topology = Topology(["a", "b"])
    trial = KeyTrial.of(topology, [b"k"], OddHasher(hostile))
    rows = [row_of(hostile, topology), PlacementRow(placement=hostile, refused=hostile)]
    below = [PlacementRow(placement=hostile, **FIGURES, why_not=hostile)]
    root = parsed(page_of(KeyComparison(trial, rows), below, source="keys", command="c"))
    assert [] == list(root.find("img"))
    assert {"class", "role", "aria-label", "width", "height"} == {
        name for svg in root.find("svg", role="img") for name in svg.attributes
    }
    assert 5 == sum(hostile in svg.attributes["aria-label"] for svg in root.find("svg", role="img"))


@pytest.mark.parametrize("nodes", [3, 1000])
def test_nothing_is_fetched_and_nothing_runs(nodes):
    root, data = page(Topology(f"node-{number}" for number in range(nodes)))
    elements = list(root.all())
    assert set() == {"script", "iframe", "object", "embed", "img", "base", "form"} & {e.tag for e in elements}
    assert [] == [name for e in elements for name in e.attributes if name.startswith("on") or name == "style"]
    assert ["data:,"] == [e.attributes[name] for e in elements for name in ("src", "href") if name in e.attributes]
    assert ["(#striped)"] == re.findall(r"url(\([^)]*\))", data.decode())
    assert None is re.search(rb"https?:|//[a-z]|@import", data)
    (policy,) = root.find("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy.attributes["content"].startswith("default-src 'none'")


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [2, 10, 24, 25, 26, 100, 199, 200, 201, 400, 1000, 2000])
@pytest.mark.parametrize("placements", [1, 14, 20])
def test_the_page_stays_small_whatever_the_number_of_nodes(nodes, placements):
    topology = Topology(f"node-{number:05}.of-some-length" for number in range(nodes))
    kinds = [f"placement-{number}" for number in range(placements)]
    root, _ = page(topology, placements=kinds, baselines="abcd")
    assert len(list(root.all())) <= MOST_ELEMENTS


def test_every_chart_has_a_name_and_its_figures_as_a_table():
    for nodes in (3, 1000):
        root, _ = page(Topology(f"node-{number}" for number in range(nodes)))
        charts = list(root.find("svg", role="img"))
        assert all(chart.attributes["aria-label"] for chart in charts)
        figures = list(root.find("figure"))
        assert len(charts) == sum(len(list(figure.find("svg", role="img"))) for figure in figures)
        assert [1] * len(figures) == [len(list(figure.find("table"))) for figure in figures]
        assert all(
            svg.attributes.get("role") == "img" or svg.attributes["aria-hidden"] == "true" for svg in root.find("svg")
        )


def test_headings_follow_each_other_and_tables_name_their_rows_and_columns():
    root, _ = page(Topology(["a", "b", "c"]))
    assert 1 == len(list(root.find("h1")))
    assert "en" == next(root.find("html")).attributes["lang"]
    for table in root.find("table"):
        assert len(list(table.find("tr"))) - 1 == len(list(table.find("th", scope="row")))
        assert len(list(next(table.find("tr")).find("th", scope="col"))) == len(next(table.find("tr")).children)
        assert 1 == len(list(table.find("caption")))


def test_every_colour_has_a_dark_twin():
    _, data = page(Topology(["a", "b"]))
    light, dark = re.findall(r":root \{(.*?)\}", data.decode(), re.DOTALL)
    defined = [dict(re.findall(r"(--[a-z]+): (#[0-9a-f]{6})", part)) for part in (light, dark)]
    assert set(defined[0]) == set(defined[1]) == set(re.findall(r"var\((--[a-z]+)\)", data.decode()))
    assert [] == [name for name in defined[0] if defined[0][name] == defined[1][name]]


@pytest.mark.parametrize("place", [0, 1])
def test_text_is_legible_in_both_schemes(place):
    _, data = page(Topology(["a", "b"]))
    scheme = dict(
        re.findall(r"(--[a-z]+): #([0-9a-f]{6})", re.findall(r":root \{(.*?)\}", data.decode(), re.DOTALL)[place])
    )
    for ground in ("--ground", "--raised"):
        assert min(contrast(scheme[ink], scheme[ground]) for ink in ("--ink", "--quiet")) >= 4.5
    assert min(contrast(scheme[shape], scheme["--ground"]) for shape in ("--plain", "--stripe", "--ink")) >= 3.0


def contrast(one, other):
    """Return the contrast ratio of two colours, as WCAG 2 defines it."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_two_runs_differ_in_nothing_but_time_and_memory():
    assert page(Topology(["a", "b"]))[1] == page(Topology(["b", "a"]))[1]
    assert None is re.search(rb"20\d\d-\d\d|\d\d:\d\d:\d\d", page(Topology(["a", "b"]))[1])


def test_what_was_not_measured_is_said_with_its_reason_once():
    topology = Topology(["a", "b"])
    rows = [
        row_of("ring", topology),
        *(PlacementRow(placement=name, refused="no <list>.") for name in ("lists", "ranges")),
    ]
    root = parsed(page_of(KeyComparison(trial_of(topology), rows), [], source="keys", command="c"))
    assert ["lists, ranges: no <list>."] == [item.text for item in root.find("li") if "no <list>" in item.text]
    assert [] == [chart for chart in root.find("svg") if "lists" in chart.text]


def test_a_page_of_no_placement_at_all_can_be_read():
    topology = Topology(["a", "b"])
    root = parsed(
        page_of(
            KeyComparison(trial_of(topology), [PlacementRow(placement="x", refused="no.")]),
            [],
            source="keys",
            command="c",
        )
    )
    assert "0 placements compared on 2 nodes" in root.text


def test_a_file_name_that_is_no_text_does_not_break_the_page():
    _, data = page(Topology(["a", "b"]), command="apportion --keys '\udcff'")
    assert "--keys &#x27;?&#x27;" in data.decode()


@pytest.mark.parametrize("where", ["no-such-folder/page.html", "."])
def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(where, tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "measured", lambda *_: 1 / 0)
    assert "--html" in refused(run("compare", "--nodes", "a,b", "--html", where, folder=tmp_path))
    assert [] == list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_page_is_replaced_by_another_file_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "names", lambda: ("jump",))
    written(tmp_path, "keys", "a\n")
    old = document("old", ()).decode()
    page_file = written(tmp_path, "page.html", old)
    options = ("compare", "--nodes", "a,b", "--keys", "keys", "--html", "page.html")
    with page_file.open() as reader:
        assert 0 == run(*options, folder=tmp_path).returncode
        assert old == reader.read()
    whole = page_file.read_bytes()
    monkeypatch.setattr(compare, "page_of", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(*options, folder=tmp_path)
    assert whole == page_file.read_bytes()
    assert ["keys", "page.html"] == sorted(path.name for path in tmp_path.iterdir())


def rects(picture):
    """Return the widths of a chart's bars by class, in per cent, in their order."""
    root = parsed(picture)
    found = [(rect.attributes["class"], rect.attributes["width"]) for rect in root.find("rect")]
    return [(kind, float(width.rstrip("%"))) for kind, width in found if kind != "mark"]


def test_bars_are_as_long_as_their_numbers_say():
    picture = bars(
        [Bar(label="a", value="1", plain=1.0), Bar(label="b", value="2", plain=0.5, striped=0.5)], most=2.0, name="n"
    )
    (kind, whole), (_, half), (striped, rest) = rects(picture)
    assert ("plain", "striped") == (kind, striped)
    assert (whole / 2, whole / 2) == (half, rest)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.floats(0, 1))
def test_no_bar_and_no_mark_leaves_the_chart(values, mark):
    most = max(*values, mark)
    picture = parsed(bars([Bar(label="x", value="v", plain=v, mark=mark) for v in values], most=most, name="n"))
    for piece in picture.find("rect"):
        end = float(piece.attributes["x"].rstrip("%"))
        end += 0 if piece.attributes["class"] == "mark" else float(piece.attributes["width"].rstrip("%"))
        assert 35 <= end <= 69.01


def test_columns_are_as_high_as_their_counts_and_an_empty_one_is_none():
    picture = parsed(columns([1, 0, 4], edges=["x", "y"], most=4, mark_after=1, name="n"))
    assert [25.0, 100.0] == [float(rect.attributes["height"]) for rect in picture.find("rect")]
    assert ["1", "4"] == [text.text for text in picture.find("text", **{"class": "count"})]
    assert "33.33%" == next(picture.find("line", **{"class": "dashes"})).attributes["x1"]


@given(st.lists(st.text(max_size=60), max_size=8))
@example(["db-01.eu.example.com:6379", "db-02.eu.example.com:6379"])
def test_a_shortened_name_fits_and_a_short_one_is_left_alone(listed):
    short = shortened(listed)
    assert set(listed) == set(short)
    for name, shown in short.items():
        assert cell_len(shown) <= LABEL_CELLS
        assert shown == name or cell_len(name) > LABEL_CELLS


@pytest.mark.parametrize("form", ["{}-and-then-the-same-for-all", "the-same-for-all-and-then-{}", "one-{}-of-the-many"])
def test_shortened_names_stay_distinct_where_their_difference_fits(form):
    listed = [form.format(f"{number:02}") for number in range(30)]
    assert 30 == len(set(shortened(listed).values()))
