"""The pages of `compare --html` and `evaluate --html` in a real browser, Chromium.

It runs headless, without a network and with a new profile. Needs the Debian package `chromium`.
"""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from collections import Counter
from html import escape, unescape
from importlib.resources import files
from pathlib import Path

import pytest

from apportion import placement
from tests.console.page_reading import parsed

pytestmark = pytest.mark.live

MISSING = "needs chromium: install the Debian package chromium"
HOSTILE = "<img src=x onerror=alert(1)>"
NODES = ["cache-01.eu-west.example.com:6379", "cache-02.eu-west.example.com:6379", "db-03", HOSTILE, "größe-5"]
TOPOLOGY = "".join(f"[[node]]\nid = {name!r}\nzone = ['z{place % 3}']\n" for place, name in enumerate(NODES))
MANY = "".join(f'[[node]]\nid = "n{number:03}"\n' for number in range(120))
BALANCERS = ["helix.auto", "helix.crush", "optimal"]
SCENARIO = f'balancers = {BALANCERS}\n{TOPOLOGY}[[resource]]\nname = "<b>"\npartitions = 40\nreplicas = 3\n'
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--enable-logging=stderr",
    "--v=0", "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
SECONDS = 120
# What a page is asked for its layout: a copy of it in a frame, for the page itself lets nothing run and a window of
# this browser is at least 500 pixels wide.
ASKED = """<script>addEventListener("load", () => {
  const letters = [...document.querySelectorAll("svg.chart text")].map(text =>
    [text.getBoundingClientRect(), text.closest("svg").getBoundingClientRect()]);
  Object.assign(parent.document.body.dataset, {
    window: innerWidth, page: document.documentElement.scrollWidth,
    left: Math.floor(Math.min(...letters.map(([text, chart]) => text.left - chart.left))),
    right: Math.ceil(Math.max(...letters.map(([text, chart]) => text.right - chart.right)))});
})</script></body>"""

JUDGED = """<script>axe.run().then(found => {
  const broken = found.violations.map(each => [each.id, each.nodes[0].html]);
  document.body.dataset.axe = JSON.stringify({kept: found.passes.length, broken: Object.fromEntries(broken)});
})</script></body>"""


@pytest.fixture(scope="module")
def chromium():
    """The browser; where there is none, a failure in CI and a skip elsewhere."""
    found = shutil.which("chromium")
    if found is None and os.environ.get("CI") == "true":
        pytest.fail(MISSING)
    if found is None:
        pytest.skip(MISSING)
    return found


@pytest.fixture(scope="module", params=["few nodes", "many nodes", "balancers"])
def page(request, tmp_path_factory):
    """A page of the whole catalog on a few nodes in zones, one of a hostile name, or on too many to draw one by one.

    Or a page of balancers on those few nodes, one of which lacks replicas in distinct zones.
    """
    folder = tmp_path_factory.mktemp("page")
    text = {"few nodes": TOPOLOGY, "many nodes": MANY, "balancers": SCENARIO}[request.param]
    (folder / "t.toml").write_text(text)
    (folder / "keys").write_text("".join(f"tenant-{number}\n" for number in range(2000)))
    compare = ("compare", "--topology", "t.toml", "--keys", "keys")
    words = ("evaluate", "--scenario", "t.toml") if request.param == "balancers" else compare
    command = [sys.executable, "-m", "apportion.console.main", *words, "--html", "page.html"]
    subprocess.run(command, cwd=folder, check=True, timeout=SECONDS, capture_output=True)
    return folder / "page.html"


def browse(chromium, page, *options, width=1280, height=900):
    """Open a page in a new profile; return what the browser printed on both outputs."""
    profile = page.parent / "profile"
    command = [
        chromium,
        *FLAGS,
        f"--user-data-dir={profile}",
        f"--window-size={width},{height}",
        *options,
        page.as_uri(),
    ]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    finally:
        shutil.rmtree(profile, ignore_errors=True)


def complaints(done):
    """Return what the page's console said."""
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_the_browser_sees_every_name_as_text_and_complains_of_nothing(chromium, page):
    done = browse(chromium, page, "--dump-dom")
    assert [] == complaints(done)
    root = parsed(done.stdout)
    seen = {cell.text.removeprefix("! ") for cell in root.find("th")}
    text = page.with_name("t.toml").read_text()
    if text == TOPOLOGY:
        assert set(NODES) <= seen
    explicit = {name for name in placement.names() if placement.get(name).takes == "explicit"}
    assert set(BALANCERS if text == SCENARIO else placement.names()) - explicit <= seen
    assert [] == [name for name in explicit if name not in root.text and text != SCENARIO]
    assert [] == list(root.find("img"))
    assert [] == [name for e in root.all() for name in e.attributes if name.startswith("on")]


def test_a_complaint_would_be_seen(chromium, tmp_path):
    planted = tmp_path / "planted.html"
    planted.write_text("<!DOCTYPE html><title>t</title><script>absent()</script>")
    assert ["absent is not defined"] == re.findall(
        "absent is not defined", "".join(complaints(browse(chromium, planted, "--dump-dom")))
    )


def test_the_page_has_no_address_that_a_request_could_go_to(page):
    assert [] == re.findall(r"https?:|url\((?!#striped\))|src=", page.read_text().replace("&lt;img src=x", ""))


@pytest.mark.parametrize("width", [360, 768, 1920])
def test_nothing_is_wider_than_the_window_and_no_letter_outside_its_chart(chromium, page, width):
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text()).replace("</body>", ASKED)
    frame = page.with_name("frame.html")
    style = f"border: 0; width: {width}px; height: 800px"
    frame.write_text(f'<!DOCTYPE html><body><iframe style="{style}" srcdoc="{escape(text)}"></iframe></body>')
    done = browse(chromium, frame, "--dump-dom", width=width)
    asked = {name: int(value) for name, value in re.findall(r'data-([a-z]+)="(-?[0-9]+)"', done.stdout)}
    assert (width, True) == (asked["window"], asked["page"] <= width)
    assert (True, True) == (asked["right"] <= 0, asked["left"] >= 0), asked


@pytest.mark.parametrize(("width", "height"), [(360, 800), (1280, 700)])
def test_a_picture_of_it_shows_the_charts_in_light_and_in_dark(chromium, page, width, height):
    grounds = []
    for scheme, flag in (("light", "1"), ("dark", "0")):
        target = page.with_name(f"{scheme}-{width}.png")
        settings = f"--blink-settings=preferredColorScheme={flag}"
        browse(chromium, page, f"--screenshot={target}", settings, width=width, height=height)
        size, colours = picture(target)
        assert (width, height) == size
        assert len(colours) > 50, "next to nothing is drawn"
        (ground, pixels), *_ = colours.most_common(1)
        assert pixels < 0.98 * width * height
        grounds.append(sum(ground))
    light, dark = grounds
    assert (True, True) == (light > 3 * 200, dark < 3 * 60)


def barriers(chromium, page, scheme):
    """Return how many rules of axe a page keeps, and those that it breaks; `scheme` is 1 for light, 0 for dark."""
    axe = (files("axe_core_python") / "axe.min.js").read_text()
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    asked = page.with_name("asked.html")
    asked.write_text(text.replace("</body>", f"<script>{axe}</script>{JUDGED}"))
    settings = f"--blink-settings=preferredColorScheme={scheme}"
    done = browse(chromium, asked, settings, "--virtual-time-budget=60000", "--dump-dom")
    (told,) = re.findall(r'data-axe="([^"]*)"', done.stdout)
    answer = json.loads(unescape(told))
    return answer["kept"], answer["broken"]


@pytest.mark.parametrize("scheme", [pytest.param(1, id="light"), pytest.param(0, id="dark")])
def test_axe_finds_no_barrier_in_a_page(chromium, page, scheme):
    pytest.importorskip("axe_core_python")
    kept, broken = barriers(chromium, page, scheme)
    assert {} == broken
    assert kept > 10, "axe looked at the page"


def test_axe_finds_a_planted_barrier(chromium, tmp_path):
    pytest.importorskip("axe_core_python")
    planted = tmp_path / "planted.html"
    planted.write_text("<!DOCTYPE html><title>t</title><body><main><h1>t</h1></main></body>")
    _, broken = barriers(chromium, planted, 1)
    assert ["html-has-lang"] == list(broken)


def picture(path: Path):
    """Return the size of a PNG of 8-bit RGB or RGBA pixels, and how many pixels it has of each colour."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, place = [], 8
    while place < len(data):
        length, kind = struct.unpack_from(">I4s", data, place)
        chunks.append((kind, data[place + 8 : place + 8 + length]))
        place += length + 12
    width, height, depth, colour, *rest = struct.unpack(">IIBBBBB", dict(chunks)[b"IHDR"])
    assert (8, [0, 0, 0]) == (depth, rest)
    channels = {2: 3, 6: 4}[colour]
    raw = zlib.decompress(b"".join(content for kind, content in chunks if kind == b"IDAT"))
    colours, above, stride = Counter(), bytes(width * channels), width * channels
    for start in range(0, len(raw), stride + 1):
        above = unfiltered(raw[start], raw[start + 1 : start + 1 + stride], above, channels)
        colours.update(zip(*(above[channel::channels] for channel in range(3)), strict=True))
    return (width, height), colours


def unfiltered(kind, line, above, channels):
    """Return a line of pixels as it was before its filter; the kinds are those of the PNG specification."""
    if kind == 0:
        return line
    if kind == 2:
        return bytes((one + up) & 255 for one, up in zip(line, above, strict=True))
    out = bytearray(line)
    for place, value in enumerate(line):
        left = out[place - channels] if place >= channels else 0
        up, corner = above[place], above[place - channels] if place >= channels else 0
        nearest = min((left, up, corner), key=lambda each: abs(left + up - corner - each)) if kind == 4 else 0
        out[place] = (value + (0, left, 0, (left + up) // 2, nearest)[kind]) & 255
    return bytes(out)
