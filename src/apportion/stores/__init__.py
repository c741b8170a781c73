"""Stores: small items under keys, changed by compare-and-set, watched, and kept as long as their lease."""

from apportion.stores.api import (
    Absent,
    Capabilities,
    Committed,
    Compare,
    CoordinationStore,
    Event,
    Item,
    Lease,
    Need,
    Outcome,
    Put,
    Refused,
    Scan,
    StoreChange,
    Unchanged,
    Unknown,
)
from apportion.stores.api import StoreChange as Change
from apportion.stores.catalog import administration, connect, schemes
from apportion.stores.prefixes.names import url_by_prefix
from apportion.stores.prefixes.store import PrefixStore, by_prefix
from apportion.stores.spec import StoreSpec

__all__ = [
    "Absent",
    "Capabilities",
    "Change",
    "Committed",
    "Compare",
    "CoordinationStore",
    "Event",
    "Item",
    "Lease",
    "Need",
    "Outcome",
    "PrefixStore",
    "Put",
    "Refused",
    "Scan",
    "StoreChange",
    "StoreSpec",
    "Unchanged",
    "Unknown",
    "administration",
    "by_prefix",
    "connect",
    "schemes",
    "url_by_prefix",
]
