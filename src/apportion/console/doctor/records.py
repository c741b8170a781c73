"""`apportion doctor --store`: checks that all records in a store can be read: groups and published tables.

Promises: the check writes nothing. A damaged record is an error, and the finding tells how to mend it.
"""

from collections.abc import Iterator

from apportion.errors import InvalidInput
from apportion.groups.admin.found import Found, read_all
from apportion.stores.administration import Finding
from apportion.stores.api import CoordinationStore
from apportion.stores.catalog import connect
from apportion.tables.layout import TABLES, TableKeys, decode_head, resolved

_MOST_NAMED = 4


async def read_records(url: str) -> tuple[Finding, ...]:
    """Read every group and published table of a store.

    Return a finding for each damaged one. If none is damaged, return one finding for all.
    """
    store = await connect(url)
    try:
        groups = await read_all(store)
        tables = await _tables(store)
    finally:
        await store.close()
    ill = (*_of_groups(groups), *_of_tables(tables))
    well = Finding(subject="records", found=f"groups {len(groups)}, published tables {len(tables)}, none is damaged")
    return *(ill or (well,)), *_of_histories(groups)


def _of_groups(groups: list[Found]) -> Iterator[Finding]:
    for each in groups:
        if each.damaged:
            named = "; ".join(f"{one.key}: {one.problem}" for one in each.damaged[:_MOST_NAMED])
            more = len(each.damaged) - _MOST_NAMED
            found = named + (f"; {more} more" if more > 0 else "")
            advice = f"Repair it with: apportion group repair URL {each.name}"
            yield Finding(subject=f"group {each.name}", found=found, verdict="error", advice=advice)


def _of_histories(groups: list[Found]) -> Iterator[Finding]:
    for each in groups:
        if not each.is_whole:
            found = "its history was not read to its end in time"
            advice = (
                f"This report may miss an epoch that went back. To read longer: apportion group repair URL {each.name}"
            )
            yield Finding(subject=f"group {each.name}", found=found, verdict="warning", advice=advice)


def _of_tables(tables: dict[str, dict[str, bytes]]) -> Iterator[Finding]:
    for name, chunks in tables.items():
        try:
            keys = TableKeys(name)
            resolved(decode_head(chunks.get(keys.head, b"")), keys, chunks)
        except InvalidInput as error:
            advice = "Publish the table again to repair it. Until then followers keep their present version."
            yield Finding(subject=f"table {name}", found=error.problem, verdict="error", advice=advice)


async def _tables(store: CoordinationStore) -> dict[str, dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}
    for item in (await store.scan(TABLES)).items:
        found.setdefault(TableKeys.name_of(item.key), {})[item.key] = item.value
    return found
