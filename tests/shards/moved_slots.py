"""Slots that move without rows, as a mover moves them, and the places that sessions of a test write."""

from tests.shards.sample import Place

FR = "FR"


def ends(router):
    """Return the slot of France, its shard, and the other shard."""
    here = router.shard(FR)
    return router.slot(FR), here, "two" if here == "one" else "one"


def switch(files, slot, here, there):
    """Move an empty slot as a mover does: fence, announce, publish, settle."""
    files.state(here, slot, "fenced")
    number = files.publish(slot, there)
    files.state(there, slot, "incoming", number.number, number.incarnation)
    files.state(here, slot, "moved")
    return number


def visits(files, shard):
    return [row[0] for row in files.sql(shard, "SELECT visits FROM place ORDER BY visits")]


def write(session, number=1):
    session.add(Place(country=FR, visits=number))
    session.commit()
