"""No answer puts two replicas into one zone without need, nor fails its own proof: thousands of cases, each by a seed.

`make soak` goes on with further seeds for as long as one likes.
"""

import pytest

from tests.balance import small


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_every_answer_is_safe_proven_and_stays(first):
    for seed in range(first, first + 100):
        small.check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 10_000, 1_000))
def test_ten_thousand_answers_are_safe_proven_and_stay(first):
    for seed in range(first, first + 1_000):
        small.check(seed)
