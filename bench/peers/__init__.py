"""The peers that figures are compared with, one file each: real packages, and the textbook's ring."""

from bench.peers.cassandra_driver import CASSANDRA_DRIVER
from bench.peers.fastring import FASTRING
from bench.peers.jump_consistent_hash import JUMP_CONSISTENT_HASH
from bench.peers.pymemcache import PYMEMCACHE
from bench.peers.textbook import TEXTBOOK
from bench.peers.tooz import TOOZ
from bench.peers.uhashring import UHASHRING, UHASHRING_MMH3

__all__ = [
    "CASSANDRA_DRIVER",
    "FASTRING",
    "JUMP_CONSISTENT_HASH",
    "PYMEMCACHE",
    "TEXTBOOK",
    "TOOZ",
    "UHASHRING",
    "UHASHRING_MMH3",
]
