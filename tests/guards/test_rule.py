"""The rule of every guard, tokens as text, and the record of what was checked."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import guards
from apportion.errors import Fenced, InvalidInput
from apportion.guards import noted
from apportion.model.epoch import FencingToken
from tests.guards.tokens import HIGHEST, NUMBERS, SEQUENCES, expected_of, token

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40)
TOKENS = st.builds(
    FencingToken,
    resource=NAMES,
    holder=NAMES,
    incarnation=st.integers(0, HIGHEST),
    epoch=st.one_of(st.sampled_from(NUMBERS), st.integers(0, HIGHEST)),
)


def test_a_first_token_is_accepted():
    assert token(0) == guards.decide(None, token(0))


@pytest.mark.parametrize(
    ("kept", "late"),
    [
        (token(8), token(7)),
        (token(8), token(7, "bob")),
        (token(8), token(8, "bob")),
        (token(1, incarnation=2), token(9, incarnation=1)),
        (token(2**53 + 1), token(2**53)),
        (token(0, incarnation=2**63), token(HIGHEST, incarnation=2**63 - 1)),
    ],
)
def test_an_older_token_and_an_equal_one_of_another_holder_are_refused(kept, late):
    with pytest.raises(Fenced) as caught:
        guards.decide(kept, late)
    assert ("mailers/17", late, kept) == (caught.value.resource, caught.value.token, caught.value.newer)
    assert kept.holder == caught.value.newer.holder


@pytest.mark.parametrize(
    ("kept", "next_one"),
    [(token(7), token(8)), (token(7), token(8, "bob")), (token(8), token(8)), (token(9), token(1, incarnation=2))],
)
def test_a_newer_token_and_an_equal_one_of_the_same_holder_are_accepted(kept, next_one):
    accepted = guards.decide(kept, next_one)
    assert (next_one, next_one.holder) == (accepted, accepted.holder)


@given(SEQUENCES)
def test_accepted_tokens_never_go_back_and_none_has_two_holders(tokens):
    accepted = [each for each, verdict in zip(tokens, expected_of(tokens), strict=True) if verdict is None]
    for resource in {each.resource for each in accepted}:
        own = [each for each in accepted if each.resource == resource]
        assert sorted(own) == own
        assert len(set(own)) == len({(str(each), each.holder) for each in own})


def test_tokens_of_two_resources_are_not_compared():
    with pytest.raises(InvalidInput, match="resource is 'b', expected a token of 'a'"):
        guards.decide(token(1, resource="a"), token(2, resource="b"))


@given(TOKENS)
def test_the_text_of_a_token_is_read_back(each):
    text = guards.to_text(each)
    again = guards.from_text(text)
    assert (each, each.resource, each.holder) == (again, again.resource, again.holder)
    assert text.isascii()
    assert set() == set(text) & set(" \r\n\t\"'")


@given(TOKENS, TOKENS)
def test_the_text_of_tokens_sorts_as_tokens_do(one, other):
    assert (one < other) == (guards.to_text(one)[:41] < guards.to_text(other)[:41])


GOOD = guards.to_text(token(7))


@pytest.mark.parametrize(
    "text",
    [
        "", "1:7;ann;mailers/17", GOOD + " ", GOOD + "\n", " " + GOOD, GOOD + ";x", GOOD.replace("ann", ""),
        GOOD.replace("ann", "a%6En"), GOOD.replace("ann", "%FF"), GOOD.replace("ann", "%00"), GOOD.replace("ann", "%"),
        GOOD.replace("ann", "ä"), GOOD.replace("7;", "\u0667;"), f"{2**64}:{0:020};ann;x", "9" * 20 + GOOD[20:],
        GOOD + "x" * 1024, GOOD + "x" * 10**7, GOOD.encode(), None, 7,
    ],
    ids=lambda text: repr(text)[:60],
)  # fmt: skip
def test_text_that_is_no_token_is_refused(text):
    with pytest.raises(InvalidInput, match="expected the text of a token"):
        guards.from_text(text)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (None, "token is None, expected a FencingToken"),
        ("1:7", "expected a FencingToken"),
        ((1, 7), "token is a tuple"),
        (token(-1), "epoch is -1"),
        (token(HIGHEST + 1), "epoch is 18446744073709551616"),
        (token(True), "epoch is True"),
        (token(1.0), "epoch is 1.0"),
        (token(1, incarnation="1"), "incarnation is '1'"),
        (token(1, incarnation=2**64), "incarnation is"),
        (token(1, resource=""), "resource is ''"),
        (token(1, resource="x" * 1025), "1025 long"),
        (token(1, resource="ü" * 513), "1 to 1024 bytes"),
        (token(1, resource="a\0b"), "without NUL"),
        (token(1, resource="\ud800"), "resource is"),
        (token(1, resource=b"a"), "resource is b'a'"),
        (token(1, ""), "holder is ''"),
        (token(1, "x" * 1025), "holder is"),
        (token(1, None), "holder is None"),
    ],
)
def test_what_is_no_token_is_refused_by_all(bad, said):
    for use in (lambda each: guards.decide(None, each), guards.to_text, guards.note):
        with pytest.raises(InvalidInput, match=said):
            use(bad)


def test_names_of_the_largest_size_are_taken():
    each = token(HIGHEST, "h" * 1024, incarnation=HIGHEST, resource="ü" * 512)
    assert each == guards.from_text(guards.to_text(guards.decide(None, each)))


def test_what_was_noted_has_been_checked_and_nothing_else():
    guards.note(token(1, resource="noted here"))
    assert (True, False) == (guards.checked("noted here"), guards.checked("never noted"))


def test_the_record_is_bounded_and_keeps_what_was_checked_last(monkeypatch):
    monkeypatch.setattr(noted, "_noted", {})
    monkeypatch.setattr(noted, "MOST_NOTED", 3)
    for resource in ("a", "b", "c", "a", "d"):
        guards.note(token(1, resource=resource))
    assert [True, False, True, True] == [guards.checked(resource) for resource in "abcd"]


def test_guards_load_no_library_of_a_database():
    libraries = {"sqlite3", "psycopg", "sqlalchemy", "redis", "asyncio"}
    program = f"import sys, apportion.guards; print({libraries} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "set()\n" == done.stdout
