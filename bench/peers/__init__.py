"""The peers that figures are compared with, one file each: real packages, and the textbook's ring."""

from bench.peers.textbook import TEXTBOOK
from bench.peers.uhashring import UHASHRING, UHASHRING_MMH3

__all__ = ["TEXTBOOK", "UHASHRING", "UHASHRING_MMH3"]
