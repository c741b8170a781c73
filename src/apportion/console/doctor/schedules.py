"""`apportion doctor --store`: checks that this host can evaluate all schedules of tasks in a store.

Promises: the check writes nothing. Each schedule with a trouble has a finding of its own; a damaged one is an error.
"""

from apportion.stores.administration import Finding
from apportion.work.admin import cron
from apportion.work.admin.cron import InspectedSchedule, Trouble
from apportion.work.cron.zone_data import zone_data_version

_ADVICE: dict[Trouble, str] = {
    "damaged": "Schedule it again, or remove it with: apportion cron rm URL QUEUE NAME",
    "unable": "Upgrade apportion and the zone data of this host. Until then, workers on other hosts fire it.",
    "schedule_disagrees": "Bring the zone data of all hosts to one version. The stored slot fires anyway.",
    "late": "Start a worker of its queue, or look at the log of the workers.",
}


async def read_schedules(url: str) -> tuple[Finding, ...]:
    """Read every schedule of a store with tasks; return the findings. Without schedules there are none."""
    found = await cron.schedules(url)
    ill = tuple(_finding(each) for each in found if each.trouble)
    if ill or not found:
        return ill
    well = f"{len(found)}, this host can evaluate all; zone data {zone_data_version()}"
    return (Finding(subject="schedules", found=well),)


def _finding(each: InspectedSchedule) -> Finding:
    subject = f"schedule {each.schedule.queue} {each.schedule.name}"
    found = f"{each.trouble}: {each.problem}"
    if each.trouble == "damaged":
        return Finding(subject=subject, found=found, verdict="error", advice=_ADVICE[each.trouble])
    return Finding(subject=subject, found=found, verdict="warning", advice=_ADVICE[each.trouble])
