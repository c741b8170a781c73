"""Arguments and results come back equal and in their type, or are refused where the call is made."""

import asyncio
import json
import math
import re
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field

from apportion.errors import InvalidInput, TaskDead
from apportion.work.call import Signature
from apportion.work.facade import Queue


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


@dataclass(frozen=True)
class Address:
    street: str
    since: datetime
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class House(Address):
    floors: int = 1


class Customer(BaseModel):
    name: str
    born: date
    balance: Decimal = Decimal(0)
    colours: list[Colour] = []


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    at: datetime
    key: UUID


class Aliased(BaseModel):
    name: str = Field(alias="customerName")


class Forgetful(BaseModel):
    name: str
    secret: str = Field(default="", exclude=True)


AT = datetime(2026, 11, 24, 9, 30, tzinfo=UTC)
ANN = Customer(name="ann", born=date(1990, 5, 1), balance=Decimal("1.10"), colours=[Colour.RED])
VALUES = [
    (Colour, Colour.RED),
    (Size, Size.BIG),
    (Decimal, Decimal("1.10")),
    (UUID, UUID(int=7)),
    (bytes, b"\x00\xff"),
    (datetime, AT),
    (timedelta, timedelta(seconds=1.5)),
    (Address, Address("Main", AT, ["old"])),
    (list[Address], [Address("Main", AT)]),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (dict[int, Decimal], {1: Decimal("0.1")}),
    (int | None, None),
    (Customer, ANN),
    (list[Customer], [ANN, ANN]),
    (dict[str, Customer], {"a": ANN}),
    (Customer | None, ANN),
    (Customer | None, None),
    (Strict, Strict(at=AT, key=UUID(int=7))),
    (Aliased, Aliased(customerName="ann")),
]


def taking(kind):
    """Return the signature of a function with one parameter of a kind."""

    def function(value: kind) -> kind:
        return value

    return Signature(function)


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=lambda each: str(each)[:30])
def test_an_annotated_value_comes_back_equal_and_in_its_type(kind, value):
    signature = taking(kind)
    data = signature.encoded((value,), {})
    json.loads(data)
    args, kwargs = signature.decoded(data)
    (back,) = (*args, *kwargs.values())
    assert (value, type(value)) == (back, type(back))
    assert value == signature.result(signature.kept(value))


@dataclass(eq=False)
class Unequal:
    number: int


UNFIT = [
    (object, {1}),
    (object, math.nan),
    (float, math.nan),
    (object, (1, 2)),
    (object, {1: 2}),
    (object, AT),
    (object, ANN),
    (object, Ellipsis),
    (int, "7"),
    (bool, 1),
    (Address, House("Main", AT)),
    (Unequal, Unequal(1)),
    (Forgetful, Forgetful(name="ann", secret="s")),
    (Customer, {"name": "ann"}),
    (Strict, ANN),
    ("Missing", 1),
    (str, "a\ud800"),
]


@pytest.mark.parametrize(("kind", "value"), UNFIT, ids=lambda each: ascii(each)[:30])
def test_a_value_that_would_come_back_as_another_one_is_refused(kind, value):
    with pytest.raises(InvalidInput, match="of function") as caught:
        taking(kind).encoded((value,), {})
    assert "nnotate" in caught.value.hint


def test_ten_mebibytes_are_refused_with_the_bound():
    with pytest.raises(InvalidInput, match="at most 1048576 bytes"):
        taking(str).encoded(("x" * 10 * 2**20,), {})


def test_a_model_is_validated_where_it_comes_back():
    with pytest.raises(ValueError, match=r"value of function.*\n?.*born"):
        taking(Customer).decoded(b'{"value": {"name": "ann", "born": "never"}}')


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/work.db"


def test_a_model_and_a_result_travel_through_a_queue(url):
    queue = Queue(url, "mail")

    @queue.task(keep_result=True)
    def older(customer: Customer, *, years: int = 1) -> Customer:
        return customer.model_copy(update={"born": customer.born.replace(year=customer.born.year - years)})

    async def _run():
        handle = await queue.enqueue(older.call(ANN, years=2))
        await queue.drain()
        return await handle.result()

    result = asyncio.run(asyncio.wait_for(_run(), 30))
    assert ANN.model_copy(update={"born": date(1988, 5, 1)}) == result


def _one(queue):
    @queue.task(name="f")
    def f(a: int) -> None: ...

    return f.call(1)


def _renamed(queue):
    @queue.task(name="f")
    def f(b: int) -> None: ...


def _needs_more(queue):
    @queue.task(name="f")
    def f(a: int, b: int) -> None: ...


def _another_type(queue):
    @queue.task(name="f")
    def f(a: Customer) -> None: ...


def _unknown_annotation(queue):
    @queue.task(name="f")
    def f(a: "Missing") -> None: ...  # noqa: F821 - the planted fault


@pytest.mark.parametrize(
    ("new", "told"),
    [
        (_renamed, r"f\(b: int\) -> None takes no a"),
        (_needs_more, r"f\(a: int, b: int\) -> None: missing a required argument: 'b'"),
        (_another_type, r"a of f\(a: .*Customer\) -> None: "),
        (_unknown_annotation, "name 'Missing' is not defined"),
    ],
)
def test_a_signature_that_changed_under_a_queued_task_makes_it_dead_for_a_clear_reason(url, new, told):
    old, queue = Queue(url, "mail"), Queue(url, "mail")
    call = _one(old)
    new(queue)

    async def _run():
        handle = await old.enqueue(call)
        drained = await queue.drain()
        assert (0, 0, 1) == (drained.done, drained.failed, drained.dead)
        with pytest.raises(TaskDead) as caught:
            await handle.result()
        assert re.search(told, caught.value.reason)

    asyncio.run(asyncio.wait_for(_run(), 30))


def test_a_program_without_models_does_not_load_pydantic(url):
    code = f"""
import asyncio, sys, apportion
queue = apportion.Queue({url!r}, "mail")
@queue.task()
def run(a: int) -> None: ...
async def main():
    await queue.enqueue(run.call(1))
    print(await queue.drain())
asyncio.run(main())
print("pydantic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert "Drained(done=1, failed=0, dead=0)\nFalse\n" == done.stdout
