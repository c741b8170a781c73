"""The next release of the library, as far as others see it: it says more in its records, and it plans otherwise.

`begin` makes of this process one of that release. Each value says more than this release knows, there are keys of a
kind that it does not know, and the controller deals partitions out anew, so that either would undo the other's plans.
"""

import json
from dataclasses import asdict, replace

from apportion.balance import catalog
from apportion.groups import handover, membership
from apportion.groups.controller import controller
from apportion.groups.life import life, parts
from apportion.groups.view import records
from apportion.groups.view.seal import sealed, unsealed
from apportion.stores.api import Absent, Put

BALANCER = "dealt"


def begin():
    """Be of the next release from now on."""
    handover.encoded = membership.encoded = encoded
    controller.encoded_target = encoded_target
    assert (parts.Controller, life.Membership) == (controller.Controller, membership.Membership)
    parts.Controller, life.Membership = Controller, NextMembership
    spec = replace(catalog.get("optimal"), name=BALANCER, owners=dealt, minimal_movement=False)
    catalog._foreign = lambda: {BALANCER: spec}


def dealt(view):
    """Return owners by the order of ids alone, whoever had what before."""
    able = sorted((node.id for node in view.topology if node.weight), reverse=True)
    return tuple(able[partition % len(able)] for partition in range(view.partitions))


def encoded(value):
    """Return the bytes of a record that says more."""
    return json.dumps(asdict(value) | {"since": [1, {"of": "the next release"}]}).encode()


def encoded_target(target):
    """Return the bytes of a target that says more."""
    head, line, packed = unsealed("target", records.encoded_target(target)).partition(b"\n")
    return sealed(json.dumps(json.loads(head) | {"replicas": [[1, 2]]}).encode() + line + packed)


class Controller(controller.Controller):
    """Plans by another balancer under the name of the same."""

    def __init__(self, view, options, tell):
        super().__init__(view, replace(options, record=replace(options.record, balancer=BALANCER)), tell)


class NextMembership(membership.Membership):
    """Writes one more key, of a kind of its own and no text."""

    async def try_to_join(self, *, is_patient):
        """See `membership.Membership`."""
        await super().try_to_join(is_patient=is_patient)
        hint = f"{self._keys.live}hint/{self._options.member_id}"
        await self._store.commit(when=[Absent(key=hint)], puts=[Put(key=hint, value=b"\xff\x00", lease=self._lease)])
