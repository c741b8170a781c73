"""Parts of pages: document, header, section, figure with its table, legend.

Promises: a page fetches nothing and runs nothing (a document forbids both to the browser). A wide table scrolls
in its own box. Text arguments are shown as text.
Refuses: a date, so that pages made twice are equal.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from apportion import __version__
from apportion.console.pages.charts import PATTERNS, swatch
from apportion.console.pages.style import STYLE

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def document(title: str, sections: Iterable[str]) -> bytes:
    """Return a whole page, in UTF-8, of the sections that are not empty."""
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="generator" content="apportion">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
    )
    body = "\n".join(filter(None, sections))
    page = f"{head}<body>\n{PATTERNS}\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    return page.encode(errors="replace")  # a file name may hold bytes that are not text


def header(heading: str, answer: str, facts: Iterable[tuple[str, str]], command: str) -> str:
    """Return the heading, the answer of the page, facts as terms and HTML, and the command that makes the page."""
    shown = f'<pre tabindex="0" role="region" aria-label="command">{escape(command)}</pre>'
    return (
        f'<header><h1>{escape(heading)}</h1>\n<p class="answer">{escape(answer)}</p>\n{terms_of(facts)}'
        f"<p>Made by apportion {escape(__version__)}:</p>{shown}</header>"
    )


def command_line(command: str, options: Mapping[str, object]) -> str:
    """Return the command line with those options that have a value."""
    words = (word for option, value in options.items() if value is not None for word in (option, str(value)))
    return shlex.join(["apportion", command, *words])


def section(title: str, content: str) -> str:
    """Return a section of HTML."""
    return f"<section><h2>{title}</h2>\n{content}</section>"


def terms_of(terms: Iterable[tuple[str, str]]) -> str:
    """Return terms, each with its words of HTML."""
    return "<dl>" + "".join(f"<dt>{term}</dt><dd>{words}</dd>" for term, words in terms) + "</dl>"


def figure(picture: str, listed: str) -> str:
    """Return a picture with its figures as a table under it; the table opens on demand."""
    return f"<figure>{picture}<details><summary>The same as a table</summary>{listed}</details></figure>"


def table_of(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, best: str = "") -> str:
    """Return a table in a box; a wide table scrolls in it, also by keyboard. The first column names the rows.

    Rows with a cell `best` stand out.
    """
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    mark = ' class="best"' if best else ""
    lines = (
        f'<tr{mark if best in (name, *cells) else ""}><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in rows
    )
    listed = f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="scroll" role="region" aria-label="{caption}" tabindex="0">{listed}</div>'


def legend_of(*entries: tuple[str, str]) -> str:
    """Return the meaning of the kinds of shapes: see `charts.swatch`."""
    return '<ul class="legend">' + "".join(f"<li>{swatch(kind)} {words}</li>" for kind, words in entries) + "</ul>"


def name_of(text: str) -> str:
    """Return a name from outside as HTML, whether its script runs from left to right or from right to left."""
    return f"<bdi>{escape(text)}</bdi>"


def percent(ratio: float) -> str:
    """Return a ratio in per cent, with one more digit if it is small."""
    return f"{ratio:.1%}" if ratio >= 0.01 or not ratio else f"{ratio:.2%}"


def grouped(number: int) -> str:
    """Return a number with its thousands separated."""
    return f"{number:,}".replace(",", "\u202f")
