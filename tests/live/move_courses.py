"""Courses of a move: there, there and back, given up, paused. Each has the stop points at which somebody is killed.

A course is a function of the orders to movers. A cell of the matrix is a label of a course, a victim and its fate: it
comes back at once, or stays away.
"""

FATES = ("back", "away")
SELDOM = frozenset({"apply-log", "drain", "tail"})
"""The steps that a move has only if writes come at the right time."""


def is_seldom(labels):
    """Whether a move may have none of the labels."""
    return SELDOM >= {label.partition(".")[0] for label in labels}


def sides(*steps):
    """Return both labels of each step."""
    return [f"{step}.{side}" for step in steps for side in ("before", "after")]


WAY = ("apply-log", "verify", "intent", "fence", "drain", "tail", "announce", "switch", "settle")


def there(orders):
    """Move, and clean up."""
    orders.over(orders.named())


def there_and_back(orders):
    """Move, go back, and clean up. Nobody is killed before the way back."""
    move = orders.named()
    orders.order(move, "there", is_spared=True)
    orders.order(move, "back")
    orders.over(move)


def there_to_stay(orders):
    """Make a move that could go back, and clean up."""
    move = orders.named()
    orders.order(move, "there")
    orders.over(move)


def given_up(orders):
    """Abort a move under its fence."""
    move = orders.named()
    orders.order(move, "go", stop="announce.after")
    orders.over(move, "abort")


def stayed(orders):
    """Abort a move on its way back. Nobody is killed before the way back."""
    move = orders.named()
    orders.order(move, "there", is_spared=True)
    orders.order(move, "back", stop="fence.after")
    orders.over(move, "abort")


def paused(orders):
    """Pause a move under its fence, and go on."""
    move = orders.named()
    orders.order(move, "go", stop="announce.after")
    orders.order(move, "pause")
    orders.over(move)


COURSES = {
    there: sides("list", "prepare", "record", "capture", "chunk", *WAY, "uncapture", "clean-batch", "release"),
    there_and_back: sides("reverse", "prepare", "record", *WAY, "uncapture"),
    there_to_stay: sides("capture-back", "forgo", "uncapture-back"),
    given_up: sides("abort-record", "unfence", "drop", "uncapture", "release"),
    stayed: sides("abort-record", "unfence", "drop", "clean-back", "uncapture", "release"),
    paused: sides("retreat", "unfence", "withdraw"),
}
SOME = {
    there: {
        "capture.after": ("source", "back"),
        "chunk.before": ("target", "away"),
        "verify.before": ("source", "away"),
        "intent.after": ("target", "back"),
        "fence.after": ("target", "away"),
        "announce.before": ("source", "back"),
        "announce.after": ("target", "back"),
        "switch.before": ("source", "away"),
        "switch.after": ("source", "away"),
        "settle.after": ("target", "back"),
        "clean-batch.before": ("target", "away"),
        "release.before": ("source", "back"),
    }
}
"""The points of `make test`, each with its victim and its fate."""


def rounds(victim):
    """Return the courses with their points: each label with both fates of a victim, or some labels for both servers."""
    if victim == "some":
        yield from SOME.items()
        return
    for first in (0, 1):
        for course, labels in COURSES.items():
            yield course, {label: (victim, FATES[(first + number) % 2]) for number, label in enumerate(labels)}
