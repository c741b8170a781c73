"""Task ledgers that break a rule on purpose, one each; `test_broken_tasks.py` has the cases that find each of them."""

from dataclasses import replace

from apportion.errors import LeaseLost
from apportion.stores.schedules.ledger import ScheduleLedger
from apportion.stores.task_ledger import TaskLedger
from apportion.stores.task_records import orphaned, receipt_of, settled
from tests.stores.rigs.memory import MemoryRig


class AnyAttempt(TaskLedger):
    """Takes a receipt of another attempt."""

    def _held(self, receipt):
        task = self.open.get(receipt.task)
        return task if task is not None and task.session == receipt.session else None


class AnySession(TaskLedger):
    """Takes a receipt of another session."""

    def _held(self, receipt):
        task = self.open.get(receipt.task)
        held = task is not None and task.session is not None and task.attempt == receipt.attempt
        return task if held else None


class AnyReceipt(TaskLedger):
    """Takes the id of a task for its receipt."""

    def _held(self, receipt):
        return self.open.get(receipt.task)


class Hasty(TaskLedger):
    """Takes tasks from sessions that live."""

    def _retaken(self, worker, most, alive, now):
        return super()._retaken(worker, most, {worker.session}, now)


class Undead(TaskLedger):
    """Gives tasks to sessions that have ended."""

    def turn(self, worker, settlements, *, want=0, alive, now):
        return super().turn(worker, settlements, want=want, alive={*alive, worker.session}, now=now)


class Torn(TaskLedger):
    """Settles before it looks at the lease."""

    def turn(self, worker, settlements, *, want=0, alive, now):
        if want and worker.session not in alive:
            super().turn(worker, settlements, alive=alive, now=now)
            raise LeaseLost(worker.session)
        return super().turn(worker, settlements, want=want, alive=alive, now=now)


class NewFirst(TaskLedger):
    """Takes old work over when there is no new one."""

    def _retaken(self, worker, most, alive, now):
        is_more = any(task.state == "ready" and self.is_served(task, worker) for task in self.open.values())
        return iter(()) if is_more else super()._retaken(worker, most, alive, now)


class Recycling(TaskLedger):
    """Takes the attempt back when a run is released."""

    def _settled(self, settlement, now):
        task = self._held(settlement.receipt)
        if task is not None and settlement.fate == "released":
            freed = settled(replace(task, attempt=task.attempt - 1), settlement)
            self._free(freed, now)
            return True
        return super()._settled(settlement, now)


class Strict(TaskLedger):
    """Counts a release as a failure."""

    def _settled(self, settlement, now):
        fate = "retry" if settlement.fate == "released" else settlement.fate
        return super()._settled(settlement._replace(fate=fate), now)


class Obstinate(TaskLedger):
    """Lets a cancel win over a completion that came first."""

    def _settled(self, settlement, now):
        task = self._held(settlement.receipt)
        if task is not None and task.is_cancelling:
            settlement = settlement._replace(fate="cancelled")
        return super()._settled(settlement, now)


class Possessive(TaskLedger):
    """Keeps a unique name after the end of its task."""

    def _enqueued(self, new, now):
        names = getattr(type(self), "names", {})
        type(self).names = names
        key = (new.queue, new.unique)
        if new.unique is not None and new.on_duplicate == "keep" and names.setdefault(key, new.id) != new.id:
            return names[key], False
        return super()._enqueued(new, now)


class Doubling(TaskLedger):
    """Opens an ended task again when its enqueue is repeated."""

    def _enqueued(self, new, now):
        self.ended.pop(new.id, None)
        return super()._enqueued(new, now)


class Early(TaskLedger):
    """Makes delayed tasks ready before they are due."""

    def _become_due(self, queues, now):
        super()._become_due(queues, now + 10**9)


class Unlimited(TaskLedger):
    """Knows no limit and no pause."""

    def turn(self, worker, settlements, *, want=0, alive, now):
        kept, self.controls = self.controls, {}
        answer = super().turn(worker, settlements, want=want, alive=alive, now=now)
        self.controls = kept
        return answer


class Forgiving(TaskLedger):
    """Counts no death."""

    def _retaken(self, worker, most, alive, now):
        for each in super()._retaken(worker, most, alive, now):
            self.open[each] = replace(self.open[each], deaths_of=())
            yield each


class Restless(TaskLedger):
    """Takes a task over at once after every death."""

    def _retaken(self, worker, most, alive, now):
        orphans = [each for each in self.by_position() if each.session is not None and each.session not in alive]
        for task in [each for each in orphans if self.is_served(each, worker)][: max(0, most)]:
            freed = orphaned(task)
            if freed.state is not None:
                self._free(freed, now)
            else:
                self.open[task.id] = freed.task
                yield self.take(freed.task, worker.session)


class Vengeful(TaskLedger):
    """Counts a lapse as a death."""

    def _outlived(self, session, now):
        return None


class Silent(TaskLedger):
    """Names no task that is to be cancelled."""

    def beat(self, session, notes):
        return replace(super().beat(session, notes), cancels=())


class Rewriting(TaskLedger):
    """Takes notes under any receipt."""

    def beat(self, session, notes):
        mine = {each.id: each for each in self.open.values()}
        known = [
            replace(each, receipt=receipt_of(mine[each.receipt.task])) for each in notes if each.receipt.task in mine
        ]
        return super().beat(session, known)


class Replaying(ScheduleLedger):
    """Triggers a slot up to the last one again."""

    def trigger(self, firing, *, by, now):
        row = self.rows.get((firing.queue, firing.name))
        if row is not None and firing.slot <= row.last_slot == firing.last_slot:
            self.tasks.enqueue(firing.tasks, now=now)
            return True
        return super().trigger(firing, by=by, now=now)


class Outdated(ScheduleLedger):
    """Triggers at any version."""

    def trigger(self, firing, *, by, now):
        row = self.rows.get((firing.queue, firing.name))
        return super().trigger(firing if row is None else replace(firing, version=row.version), by=by, now=now)


class Uncompared(ScheduleLedger):
    """Triggers whatever the last slot was."""

    def trigger(self, firing, *, by, now):
        row = self.rows.get((firing.queue, firing.name))
        slot = firing.slot if row is None or firing.slot > row.last_slot else row.last_slot + 1
        known = firing if row is None else replace(firing, last_slot=row.last_slot, slot=slot)
        return super().trigger(known, by=by, now=now)


class TornSlot(ScheduleLedger):
    """Enqueues the tasks before it looks at the row."""

    def trigger(self, firing, *, by, now):
        self.tasks.enqueue(firing.tasks, now=now)
        return super().trigger(firing, by=by, now=now)


class Insistent(ScheduleLedger):
    """Shows a node the schedules again that it cannot evaluate."""

    def fire(self, queues, decide, *, without=(), **options):
        return super().fire(queues, decide, **options)


class Sleepless(ScheduleLedger):
    """Fires paused schedules."""

    def _served(self, queues, without):
        return sorted(
            [row for place, row in self.rows.items() if row.queue in queues and place not in without],
            key=lambda row: row.next_slot,
        )


class ByItsClock(ScheduleLedger):
    """Keeps the last slot of a firing behind the clock of the store."""

    def trigger(self, firing, *, by, now):
        is_made = super().trigger(firing, by=by, now=now)
        place = firing.queue, firing.name
        if is_made:
            self.rows[place] = replace(self.rows[place], last_slot=firing.last_slot, next_slot=firing.slot)
        return is_made


def rig_of(name):
    """Return a rig of the memory store with this ledger of tasks, or of schedules."""
    rig, broken = MemoryRig(), globals()[name]
    if issubclass(broken, ScheduleLedger):
        rig.memory.schedules = broken(tasks=rig.memory.tasks)
    else:
        rig.memory.tasks = broken()
        rig.memory.schedules = ScheduleLedger(tasks=rig.memory.tasks)
    return rig
