"""A store that went back: its scan lacks records of the group that this process saw before.

Promises: a store that went back within one life gives tokens twice. So a member that saw the later state serves nothing
from such a store.
Refuses: to judge single records. A newer record at a lower epoch is damage, and costs only its partition.
"""

from copy import copy

from apportion.groups.view.view import View
from apportion.stores.api import Scan


def known(view: View) -> View:
    """Return a copy of a view with the ownership known now; records that the view takes later do not change it."""
    found = copy(view)
    found.own = dict(view.own)
    return found


def lacking_in(scan: Scan, view: View) -> tuple[str, str] | None:
    """Return a fact of the view that a scan lacks, and the fact that the scan shows instead; None if it lacks nothing.

    A store that was restored from an older copy may have had other writes since. Then its revision may be above the
    revision of the view. In that case, an ownership record that is older than the one in the view shows the restore. A
    newer record at a lower epoch is damaged, and costs only its partition. O(partitions).
    """
    seen, found = (view.incarnation, view.revision), (scan.incarnation, scan.revision)
    if found < seen:
        return f"revision {seen[1]} of life {seen[0]}", f"revision {found[1]} of life {found[0]}"
    if scan.incarnation == view.incarnation:
        shown = {item.key: item for item in scan.items}
        for partition, owned in view.own.items():
            item = shown.get(view.keys.own(partition))
            is_older = item is None or item.revision < owned.revision
            if is_older and not view.is_damaged(partition):
                was = f"partition {partition} at epoch {owned.ownership.epoch}"
                return was, "its ownership record is an older one"
    return None
