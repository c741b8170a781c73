"""Range loads as Hypothesis draws them: ranges that cover all keys of one or two bytes, with samples and peaks."""

from hypothesis import strategies as st

from apportion import KeyRange, Topology
from apportion.balance.ranges import PeakWindows, RangeLimits, RangeLoad

LIMITS = RangeLimits(split_bytes=1000, split_requests=1000, least_age_seconds=300, most_in_flight=3)
NOW = 1000.0
NODES = Topology({"a": 1, "b": 2, "c": 0})


@st.composite
def range_loads(draw):
    """Draw ranges without a gap or an overlap; each has a sample of both kinds."""
    bounds = sorted(draw(st.sets(st.binary(min_size=1, max_size=2), max_size=12)))
    return [draw(range_load(KeyRange(start, end))) for start, end in zip([b"", *bounds], [*bounds, None], strict=True)]


@st.composite
def range_load(draw, key_range):
    keys = st.binary(max_size=3).map(lambda tail: key_range.start + tail).filter(lambda key: key in key_range)
    sample = st.lists(keys | st.just(key_range.start), min_size=1, max_size=40).map(tuple)
    peaks = st.lists(st.integers(0, 2000), max_size=6).map(tuple)
    return RangeLoad(
        range=key_range,
        owner=draw(st.sampled_from(["a", "b", "c", "gone"])),
        size_bytes=draw(st.integers(0, 3000)),
        requests=draw(st.integers(0, 3000)),
        changed_at=draw(st.integers(0, 1000)),
        peaks=PeakWindows(values=draw(peaks)),
        requested_keys=draw(sample),
        stored_keys=draw(sample),
    )


def covers_everything(loads):
    """Return whether ranges in order have no gap and no overlap, from the first key to the end of all."""
    ranges = [load.range for load in loads]
    ends = [each.end for each in ranges]
    return [b"", *ends[:-1]] == [each.start for each in ranges] and ends[-1] is None
