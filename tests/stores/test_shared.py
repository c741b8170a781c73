"""What the handles of a process share: counted, one per loop and process, never the parent's."""

import asyncio
import os

from apportion.stores.shared import Shared


def test_users_of_one_key_get_one_thing_until_the_last_has_given_it_back():
    async def main():
        shared, made = Shared(), []
        one = shared.take("a", lambda: made.append(1) or object())
        assert one is shared.take("a", object)
        assert one is not shared.take("b", object)
        assert [False, True] == [shared.give_back("a"), shared.give_back("a")]
        assert one is not shared.take("a", object)
        assert [1] == made

    asyncio.run(main())


def test_loops_share_nothing_and_a_loop_that_ended_is_forgotten():
    shared, things = Shared(), []

    async def main():
        things.append(shared.take("a", object))
        assert 1 == len(shared._uses), "only those of this loop"

    for _ in range(3):
        asyncio.run(main())
    assert 3 == len(set(map(id, things)))


def test_a_forked_child_shares_nothing_with_its_parent():
    shared = Shared()

    async def own(thing):
        return thing is not shared.take("a", object) and len(shared._uses) == 2  # that of the parent is not freed

    async def main():
        thing = shared.take("a", object)
        child = os.fork()
        if child == 0:
            os._exit(0 if asyncio.run(own(thing)) else 1)
        assert 0 == os.waitpid(child, 0)[1]
        assert shared.give_back("a")

    asyncio.run(main())
