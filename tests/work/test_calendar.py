"""The calendar against a walk over UTC minutes, and against the table of clock changes that the page prints."""

import itertools
import json
import os
import random
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pytest

from apportion.errors import InvalidInput
from apportion.work.cron.acts import milliseconds_of
from apportion.work.cron.calendar import MACROS, Cron, Every, cron_slots
from apportion.work.cron.due_slots import next_slot
from apportion.work.retry_budget import length

VECTORS = json.loads((Path(__file__).parent / "vectors" / "clock_changes.json").read_text())
ZONES = sorted(available_timezones() - {"localtime", "Factory"})
CHANGING = ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca"]
MINUTES = 2 * 1_440  # of a window
MARGIN = 26 * 60  # around it, so that every repeated minute is known as such
RULES_OF_A_WINDOW = 40
SOAK_CASES = int(os.environ.get("APPORTION_CALENDAR_CASES", "1000000"))


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: f"{case['rule']} {case['gap']} {case['fold']}")
def test_a_day_with_a_clock_change_has_the_slots_of_the_table(case):
    zone = ZoneInfo(case["zone"])
    begin = datetime.fromisoformat(case["day"]).replace(tzinfo=zone)
    slots = cron_slots(
        case["rule"], zone=case["zone"], gap=case["gap"], fold=case["fold"], after=begin - timedelta(seconds=1)
    )
    end = begin + timedelta(days=1)  # of the wall clock
    of_the_day = itertools.takewhile(lambda slot: slot < end.astimezone(UTC), slots)
    assert case["slots"] == [slot.astimezone(zone).isoformat() for slot in of_the_day]


def minutes_ahead(stamps, zone):
    """Return how many minutes the local time of each stamp is ahead of UTC.

    No zone changes its clocks twice within ten minutes: between two stamps with equal offsets, the offset is theirs.
    """
    ahead = np.empty(len(stamps), int)
    for begin in range(0, len(stamps), 10):
        first, last = begin, min(begin + 10, len(stamps) - 1)
        offsets = [_ahead(stamps[each], zone) for each in (first, last)]
        ahead[first : last + 1] = offsets[0]
        if offsets[0] != offsets[1]:
            ahead[first : last + 1] = [_ahead(stamp, zone) for stamp in stamps[first : last + 1]]
    return ahead


def _ahead(stamp, zone):
    return datetime.fromtimestamp(int(stamp), zone).utcoffset() // timedelta(minutes=1)


class Walk:
    """All UTC minutes of a window and the local minute of each, by zoneinfo alone."""

    def __init__(self, zone, begin):
        stamps = begin + 60 * np.arange(-MARGIN, MINUTES + MARGIN)
        self.utc = stamps // 60
        self.local = self.utc + minutes_ahead(stamps, zone)
        self.inside = (stamps > begin) & (stamps < begin + 60 * MINUTES)
        self.is_first = np.zeros(len(stamps), bool)
        self.is_first[np.unique(self.local, return_index=True)[1]] = True
        self.is_last = np.zeros(len(stamps), bool)
        self.is_last[len(stamps) - 1 - np.unique(self.local[::-1], return_index=True)[1]] = True
        self.jumps = [index for index in range(1, len(stamps)) if self.local[index] - self.local[index - 1] > 1]

    def slots(self, rule, gap, fold):
        """Return the slots inside the window, as minutes since 1970."""
        fires = rule.matches(self.local)
        if rule.is_fixed:
            fires &= {"first": self.is_first, "last": self.is_last, "both": True}[fold]
            for index in self.jumps if gap == "run-after" else ():
                swallowed = np.arange(self.local[index - 1] + 1, self.local[index])
                fires[index] |= rule.matches(swallowed).any()
        return self.utc[fires & self.inside].tolist()


class RandomRule:
    """A random rule: its text, and the sets that the text stands for."""

    def __init__(self, draw):
        minute, self.minutes = self._field(draw, 0, 59)
        hour, self.hours = self._field(draw, 0, 23)
        day, self.days = self._field(draw, 1, 31) if draw.random() < 0.3 else ("*", range(1, 32))
        month, self.months = self._field(draw, 1, 12) if draw.random() < 0.2 else ("*", range(1, 13))
        weekday, self.weekdays = self._field(draw, 0, 6) if draw.random() < 0.3 else ("*", range(7))
        self.text = f"{minute} {hour} {day} {month} {weekday}"
        self.is_fixed = not minute.startswith("*") and not hour.startswith("*")
        self.needs_both_days = day.startswith("*") or weekday.startswith("*")

    @staticmethod
    def _field(draw, low, high):
        kind = draw.randrange(6)
        if kind == 0:
            return "*", range(low, high + 1)
        if kind == 1:
            step = draw.randint(1, high)
            return f"*/{step}", range(low, high + 1, step)
        if kind == 2:
            first = draw.randint(low, high)
            last, step = draw.randint(first, high), draw.randint(1, 5)
            return f"{first}-{last}/{step}", range(first, last + 1, step)
        some = sorted(draw.sample(range(low, high + 1), draw.randint(1, 4)))
        return ",".join(map(str, some)), some

    def matches(self, local):
        """Whether each local minute matches."""
        days, minutes = np.divmod(local, 1_440)
        first, last = days.min(), days.max()
        is_day = np.array(
            [self._is_date(date(1970, 1, 1) + timedelta(days=int(day))) for day in range(first, last + 1)]
        )
        is_hour, is_minute = np.zeros(24, bool), np.zeros(60, bool)
        is_hour[list(self.hours)] = is_minute[list(self.minutes)] = True
        return is_day[days - first] & is_hour[minutes // 60] & is_minute[minutes % 60]

    def _is_date(self, day):
        is_day, is_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        is_right = is_day and is_weekday if self.needs_both_days else is_day or is_weekday
        return is_right and day.month in self.months


def a_change(zone, draw):
    """Return a time shortly before a change of the clocks of a zone, or any time where none is found."""
    begin = datetime(draw.randint(1974, 2036), draw.randint(1, 12), 1, tzinfo=UTC)
    offsets = [(begin + timedelta(days=each)).astimezone(zone).utcoffset() for each in range(200)]
    days = next((each for each in range(199) if offsets[each] != offsets[each + 1]), draw.randrange(200))
    return int((begin + timedelta(days=days - 1, minutes=draw.randrange(1_440))).timestamp())


def differences(cases, seed):
    """Return the random cases whose slots differ from the walk."""
    draw, found = random.Random(seed), []
    for _ in range(cases // RULES_OF_A_WINDOW):
        name = draw.choice(ZONES if draw.random() < 0.6 else CHANGING)
        begin = a_change(ZoneInfo(name), draw)
        walk = Walk(ZoneInfo(name), begin)
        for _ in range(RULES_OF_A_WINDOW):
            rule, gap, fold = (
                RandomRule(draw),
                draw.choice(["run-after", "skip"]),
                draw.choice(["first", "last", "both"]),
            )
            try:
                cron = Cron(rule=rule.text, zone=name, gap=gap, fold=fold)
            except InvalidInput:
                continue  # a day that never comes
            after = datetime.fromtimestamp(begin, UTC)
            end = after + timedelta(minutes=MINUTES)
            slots = itertools.takewhile(lambda slot, end=end: slot < end, cron.slots(after))
            if walk.slots(rule, gap, fold) != [int(slot.timestamp()) // 60 for slot in slots]:
                found.append((rule.text, name, gap, fold, after.isoformat()))
    return found


def test_slots_equal_a_walk_over_all_minutes():
    assert [] == differences(500, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 4, 5] if os.environ.get("APPORTION_GROUP_RUNS") == "500" else [2])
def test_slots_of_many_thousand_rules_equal_a_walk_over_all_minutes(seed):
    assert [] == differences(25_000, seed)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_slots_of_a_million_rules_equal_a_walk_over_all_minutes():
    assert [] == differences(SOAK_CASES, random.SystemRandom().randrange(2**32))


def test_slots_are_multiples_of_the_period_since_1970():
    slots = Every(period=timedelta(minutes=7)).slots(datetime(2026, 1, 1, tzinfo=UTC))
    assert [0] * 5 == [slot.timestamp() % 420 for slot in itertools.islice(slots, 5)]


def test_a_slot_is_later_than_the_instant_asked_for():
    slot = next(cron_slots("0 9 * * *", after=datetime(2026, 1, 1, 9, tzinfo=UTC)))
    assert datetime(2026, 1, 2, 9, tzinfo=UTC) == slot
    assert slot == next(cron_slots("0 9 * * *", after=slot - timedelta(microseconds=1)))


@pytest.mark.parametrize("macro", MACROS)
def test_a_macro_is_the_rule_that_it_stands_for(macro):
    after = datetime(2026, 5, 5, 1, tzinfo=UTC)
    assert next(cron_slots(MACROS[macro], after=after)) == next(cron_slots(macro, after=after))


BAD_RULES = [
    "*/0 * * * *",
    "60 * * * *",
    "0 0 30 2 *",
    "0 0 */30 2 1#5",
    "٣ * * * *",
    "0 9 * *",
    "0 0 L/2 * *",
    "0 0 1,LW/2 * *",
    "0 0 * * \u017fun",
    "0\u2003 0 * * *",
    "@reboot",
    "",
    5,
    None,
]


@pytest.mark.parametrize("rule", [*BAD_RULES, ",".join(["1"] * 10_000) + " * * * *"], ids=lambda rule: str(rule)[:20])
def test_a_rule_that_cannot_be_is_refused_in_few_words(rule):
    with pytest.raises(InvalidInput, match="rule") as refusal:
        cron_slots(rule, after=datetime(2026, 1, 1, tzinfo=UTC))
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("rule", ["30 2 * 3 sun#2", "*/30 2 * 3 sun#2"])
def test_a_rule_whose_times_the_clocks_always_skip_is_refused(rule):
    with pytest.raises(InvalidInput, match="a time that exists in America/New_York"):
        Cron(rule=rule, zone="America/New_York", gap="skip")
    assert Cron(rule=rule, zone="Asia/Tokyo", gap="skip")


def test_a_rule_with_seconds_is_led_to_every():
    with pytest.raises(InvalidInput, match="every"):
        cron_slots("*/10 * * * * *", after=datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("zone", ["Europe/Berln", "../etc/passwd", "", 5, "\0", [], "localtime"])
def test_an_unknown_zone_is_refused(zone):
    with pytest.raises(InvalidInput, match="zone"):
        cron_slots("@daily", zone=zone, after=datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("after", [datetime.fromisoformat("2026-01-01"), datetime(1972, 1, 1, tzinfo=UTC), "now"])
def test_a_time_without_a_zone_or_before_1973_is_refused(after):
    with pytest.raises(InvalidInput, match="after"):
        cron_slots("@daily", after=after)


@pytest.mark.parametrize("rule", [Cron(rule="0 0 * * *", zone="Asia/Tokyo"), Every(period=timedelta(days=366))])
def test_the_calendar_ends_before_the_year_9999(rule):
    last = datetime(9998, 12, 31, 23, tzinfo=UTC)
    assert [] == list(rule.slots(last))
    with pytest.raises(InvalidInput, match="after"):
        next(rule.slots(datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-23)))))


@pytest.mark.parametrize("period", [timedelta(0), timedelta(milliseconds=5), timedelta(days=400), 5])
def test_a_period_that_cannot_be_is_refused(period):
    with pytest.raises(InvalidInput, match="period"):
        Every(period=period)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: Every(period=timedelta(0)), "period is '0:00:00'"),
        (lambda: Every(period=timedelta(seconds=1, microseconds=500)), "period is '0:00:01.000500'"),
        (lambda: cron_slots("@daily", after=datetime(2026, 1, 1)), "after is '2026-01-01 00:00:00'"),  # noqa: DTZ001
        (lambda: length("jitter", -timedelta(1)), "jitter is '-1 day, 0:00:00'"),
        (lambda: milliseconds_of("slot", datetime(2026, 1, 1)), "slot is '2026-01-01 00:00:00'"),  # noqa: DTZ001
        (lambda: next_slot(Every(period=timedelta(hours=1)), 253_370_761_200_000), "slot is '9998-12-31 23:00:00"),
    ],
)
def test_a_refused_time_is_named_in_the_message(wrong, words):
    with pytest.raises(InvalidInput, match=words):
        wrong()


@pytest.mark.parametrize("policy", [{"gap": "twice"}, {"fold": "never"}])
def test_an_unknown_policy_is_refused(policy):
    with pytest.raises(InvalidInput, match=next(iter(policy))):
        Cron(rule="@daily", **policy)
