"""Range limits: the size and the load above which a range is split, and the pace of changes.

The limit of a merge is not an option: two neighbours join only below half of the limits of a split. So a merged range
must double before it is split again.

Source: the defaults of CockroachDB, 512 MiB and 2 500 requests per second.
"""

from dataclasses import dataclass
from math import isfinite

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.model.numbers import check_int


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class RangeLimits:
    """The limits of all planners.

    - `split_bytes`, `split_requests`: a range above one of them is split; requests are per second.
    - `least_age_seconds`: a range keeps its boundaries for so long after a split or a merge.
    - `most_in_flight`: splits, merges and moves at the same time.
    - `tolerance`: a node may exceed its share of load or bytes by this part of the share, before ranges move.
    """

    split_bytes: int = 512 * 2**20
    split_requests: int = 2500
    least_age_seconds: float = 300
    most_in_flight: int = 4
    tolerance: float = 0.2

    def __post_init__(self) -> None:
        check_int("split_bytes", self.split_bytes, 2, hint="512 MiB is usual: 536870912.")
        check_int("split_requests", self.split_requests, 2, hint="Take the requests per second of half a node.")
        check_time("least_age_seconds", self.least_age_seconds)
        check_int("most_in_flight", self.most_in_flight, 1, hint="A few at once keep the cluster calm.")
        if type(self.tolerance) not in (int, float) or not 0 < self.tolerance < 1:
            raise InvalidInput("tolerance", self.tolerance, "a number above 0 and below 1", "0.2 is a fifth.")


def check_time(name: str, seconds: float) -> None:
    """Raise `InvalidInput` for a value that is no time in seconds."""
    if type(seconds) not in (int, float) or not isfinite(seconds) or seconds < 0:
        raise InvalidInput(name, seconds, "seconds, a number of at least 0", "Pass elapsed seconds of one clock.")


STANDARD = RangeLimits()
