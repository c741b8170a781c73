"""Sequences of tokens, and what the pure rule says of them: the dumb twin of every guard."""

from dataclasses import replace

from hypothesis import strategies as st

from apportion.errors import Fenced
from apportion.guards import decide
from apportion.model.epoch import FencingToken

HIGHEST = 2**64 - 1
# Near every edge: of digits, of exact floats, of signed and of unsigned integers.
NUMBERS = (0, 1, 9, 10, 2**53, 2**53 + 1, 2**63 - 1, 2**63, HIGHEST)


def token(epoch, holder="ann", *, incarnation=1, resource="mailers/17"):
    return FencingToken(resource=resource, holder=holder, incarnation=incarnation, epoch=epoch)


BAD_TOKENS = [
    (None, "token"),
    ("1:7", "token"),
    (token(-1), "epoch"),
    (token(1, incarnation=HIGHEST + 1), "incarnation"),
    (token(1, resource="x" * 1025), "resource"),
    (token(1, "a\0"), "holder"),
]

SEQUENCES = st.lists(
    st.builds(
        token,
        st.sampled_from(NUMBERS),
        st.sampled_from(["ann", "bob", "bö b;%"]),
        incarnation=st.sampled_from([1, 2**63, HIGHEST]),
        resource=st.sampled_from(["a", "ü/ 'b\";{c}%s:x"]),
    ),
    max_size=12,
)


def verdicts_of(check, tokens):
    """Return for each token None when it was accepted, else what the refusal says."""
    return [_verdict(check, each) for each in tokens]


def expected_of(tokens):
    """Return what the pure rule says."""
    kept = {}

    def check(each):
        kept[each.resource] = decide(kept.get(each.resource), each)

    return verdicts_of(check, tokens)


def elsewhere(tokens, place):
    """Return the same tokens for resources that nobody else has used."""
    return [replace(each, resource=f"{each.resource}#{place}") for each in tokens]


def _verdict(check, each):
    try:
        check(each)
    except Fenced as error:
        return error.resource == each.resource, error.token is each, str(error.newer), error.newer.holder
    return None
