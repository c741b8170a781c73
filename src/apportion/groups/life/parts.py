"""Parts: the machines and states of one member that outlive its sessions."""

from collections import deque
from functools import partial

from apportion.groups.controller.controller import Controller
from apportion.groups.holdings import Holdings
from apportion.groups.life.deadlines import Deadlines
from apportion.groups.life.departure import Departure
from apportion.groups.life.effects import Effects
from apportion.groups.life.inbox import Inbox
from apportion.groups.log import log
from apportion.groups.member import MemberMachine
from apportion.groups.membership import Predecessors
from apportion.groups.opening import Options
from apportion.groups.statistics import Statistics
from apportion.groups.view.feed import GroupFeed
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import KEPT_SESSIONS
from apportion.groups.view.view import View
from apportion.runtime.clock import Clock
from apportion.runtime.events import EventStream, GroupEvent, Unguarded
from apportion.stores.api import CoordinationStore


class MemberParts:
    """The parts of one member, for its driver and for each of its lives.

    `width` is the number of moves that fit in a commit, `former` are the sessions of this process that are over.
    """

    store: CoordinationStore
    clock: Clock
    options: Options
    inbox: Inbox
    statistics: Statistics
    events: EventStream

    def __init__(self, store: CoordinationStore, clock: Clock, options: Options) -> None:
        self.store, self.clock, self.options = store, clock, options
        self.view: View = View(GroupKeys(group=options.group), options.record)
        # A move compares three keys at most, and all moves of a commit compare our own record.
        self.width: int = max(1, (store.capabilities().max_operations - 1) // 3)
        self.member: MemberMachine = MemberMachine(self.view, options.member_id, width=self.width)
        self.inbox, self.statistics = Inbox(), Statistics()
        self.holdings: Holdings = Holdings(clock, quiet=self.inbox.quiet, told=self.inbox.turn_soon)
        self.deadlines: Deadlines = Deadlines(options)
        observers = (log, self.statistics.observe, *filter(None, (options.observer,)))
        self.events = EventStream(*observers, group=options.group, member_id=options.member_id, clock=clock)
        self.holdings.first_unguarded = self._first_unguarded
        self.controller: Controller = Controller(self.view, options, self.events.tell)
        self.effects: Effects = Effects(self.view, self.holdings, self.deadlines, self.events)
        self.feed: GroupFeed = GroupFeed(store, self.view, heard=self.inbox.hear, troubled=self.effects.asks_again)
        self.departure: Departure = Departure(options)
        self.former: deque[int] = deque(maxlen=KEPT_SESSIONS)
        self.predecessors: Predecessors = Predecessors()

    def tell(self, event: GroupEvent) -> None:
        """Tell an event of this member, from any thread."""
        self.inbox.call(partial(self.events.tell, event))

    def _first_unguarded(self, partition: int) -> None:
        self.tell(Unguarded(partitions=(partition,)))
