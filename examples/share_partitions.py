"""Two members share partitions on one file; one leaves, the other goes on. Pass a URL to try it on another store."""

import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from apportion.sync import open_group


def main(url: str) -> None:
    ttl = timedelta(seconds=2)
    with open_group(url, "mailers", partitions=8, member_id="first", lease_ttl=ttl) as first:
        first.wait_until_settled()
        print("alone:", list(first.owned))
        kept = dict(first.owned)
        with open_group(url, "mailers", partitions=8, member_id="second", lease_ttl=ttl) as second:
            second.wait_until_settled()
            print("shared:", list(first.owned), "and", list(second.owned))
            print("untouched:", all(first.owned[each] is kept[each] for each in first.owned))
            partition = next(iter(second.owned))
            token = second.token(partition)
            print(f"{token.resource} is ours, epoch {token.epoch}")
        first.wait_until_settled()
        print("alone again:", list(first.owned))
        print(f"epoch of {partition} now:", first.token(partition).epoch)


with tempfile.TemporaryDirectory() as folder:
    main(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{Path(folder) / 'work.db'}")

# Prints:
# alone: [0, 1, 2, 3, 4, 5, 6, 7]
# shared: [0, 1, 2, 3] and [4, 5, 6, 7]
# untouched: True
# mailers/4 is ours, epoch 2
# alone again: [0, 1, 2, 3, 4, 5, 6, 7]
# epoch of 4 now: 3
