"""Lines: the reports of a worker of tasks on standard error, with the log messages of the program, as text or JSON."""

import json as json_format

from apportion.console.group.run_lines import Reports
from apportion.console.print.output import FORMAT_VERSION

_COMMAND = "tasks worker"


class WorkerLines(Reports):
    """The reports of the workers of one process; a report never waits and never fails."""

    def __init__(self, *, json: bool) -> None:
        super().__init__(_COMMAND, json=json)

    def tell(self, event: str, text: str) -> None:
        """Report an event."""
        self.say(None, event, text)

    def line(self, partition: int | None, event: str, text: str) -> str:
        """Return the line of an event; there are no partitions."""
        if not self.is_json:
            return super().line(partition, event, text)
        members = {"format_version": FORMAT_VERSION, "command": _COMMAND, "event": event, "text": text}
        return json_format.dumps(members, ensure_ascii=False)
