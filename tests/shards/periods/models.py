"""Models with a time for the tests of this folder, and times of their rows."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy import DateTime
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from apportion.shards import Sharded


class Base(DeclarativeBase):
    pass


class Event(Sharded, Base):
    __tablename__ = "event"
    __shard_key__ = "country"
    __shard_time__ = "created_at"
    __shard_period__ = "month"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), primary_key=True)
    country: Mapped[str]
    note: Mapped[str | None]
    blob: Mapped[bytes | None]


def ago(days):
    """Return the time that is some days ago, without a zone in the text that SQLite keeps."""
    return datetime.now(UTC) - timedelta(days=days)


def model(base=None, **parts):
    """Return a model with other parts than `Event`."""

    class Own(DeclarativeBase):
        pass

    names = {
        "__tablename__": "event",
        "__shard_key__": "country",
        "__shard_time__": "created_at",
        "__shard_period__": "month",
        "__annotations__": {"id": Mapped[UUID], "country": Mapped[str], "created_at": Mapped[datetime]},
        "id": mapped_column(primary_key=True),
        "created_at": mapped_column(DateTime(timezone=True), primary_key=True),
        **parts,
    }
    kept = {name: value for name, value in names.items() if value is not None}
    return type("Event", (Sharded, base or Own), kept)
