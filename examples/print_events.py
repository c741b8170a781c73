"""Print each event of a member as a line of JSON: it joins, gives half of its partitions away, and takes them back."""

import json
import tempfile
from datetime import timedelta

from apportion.groups import GroupEvent
from apportion.sync import open_group


def show(event: GroupEvent) -> None:
    told = event.as_dict()  # also the group, the member, the time on an elapsed clock, and a reason
    print(json.dumps({name: told[name] for name in ("event", "partition", "epoch", "receiver") if name in told}))


with tempfile.TemporaryDirectory() as folder:
    url, at_once = f"sqlite:///{folder}/work.db", timedelta(0)
    with open_group(url, "mailers", partitions=2, member_id="first", settle=at_once, observer=show) as first:
        first.wait_until_settled()
        with open_group(url, "mailers", partitions=2, member_id="second", settle=at_once) as second:
            second.wait_until_settled()
        first.wait_until_settled()

# Prints:
# {"event": "SessionBegan"}
# {"event": "Joined"}
# {"event": "Gained", "partition": 0, "epoch": 1}
# {"event": "Gained", "partition": 1, "epoch": 1}
# {"event": "Lost", "partition": 1}
# {"event": "HandedOver", "partition": 1, "receiver": "second"}
# {"event": "Gained", "partition": 1, "epoch": 3}
# {"event": "Lost", "partition": 0}
# {"event": "Lost", "partition": 1}
# {"event": "HandedOver", "partition": 0, "receiver": null}
# {"event": "HandedOver", "partition": 1, "receiver": null}
# {"event": "SessionEnded"}
# {"event": "Departed"}
