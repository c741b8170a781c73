"""Acts of an operator on one schedule. An act is one commit. `InvalidInput` for an unknown schedule."""

from apportion.work.admin.arguments import checked_queue
from apportion.work.admin.inquiry import Inquiry, asked
from apportion.work.cron import acts


async def pause(url: str, queue: str, name: str) -> bool:
    """See `facade.pause`."""
    checked_queue(queue)

    async def _pause(inquiry: Inquiry) -> bool:
        return await acts.paused(inquiry.store, inquiry.full(queue), name)

    return await asked(url, _pause)


async def resume(url: str, queue: str, name: str) -> bool:
    """See `facade.resume`."""
    checked_queue(queue)

    async def _resume(inquiry: Inquiry) -> bool:
        return await acts.resumed(inquiry.store, inquiry.full(queue), name, by="resume")

    return await asked(url, _resume)


async def run_now(url: str, queue: str, name: str) -> str:
    """See `facade.run_now`."""
    checked_queue(queue)

    async def _run(inquiry: Inquiry) -> str:
        return await acts.run_now(inquiry.store, inquiry.full(queue), name, by="run-now")

    return await asked(url, _run)


async def remove(url: str, queue: str, name: str) -> None:
    """See `facade.remove`."""
    checked_queue(queue)

    async def _remove(inquiry: Inquiry) -> None:
        await acts.removed(inquiry.store, inquiry.full(queue), name)

    await asked(url, _remove)
