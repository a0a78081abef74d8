"""Tasks that return what they were given, one per annotated type, and values of each type."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypedDict, TypeVar
from uuid import UUID

import msgspec
import pydantic
import pydantic.dataclasses

from stem import Stem, Task

T = TypeVar("T")


class Colour(Enum):
    RED = "red"


class Size(StrEnum):
    LARGE = "large"


class Level(IntEnum):
    HIGH = 3


@dataclass(frozen=True)
class Line:
    price: Decimal
    colour: Colour
    at: datetime
    file: Path | None = None


@dataclass
class Basket:
    id: UUID
    lines: list[Line]
    by_size: dict[Size, Line] = field(default_factory=dict)


class Customer(pydantic.BaseModel):
    id: UUID
    born: date
    balance: Decimal
    level: Level
    home: Path
    seen_at: datetime = pydantic.Field(alias="seenAt")
    colour: Colour = Colour.RED


class Invoice(pydantic.BaseModel):
    customer: Customer
    lines: list[Line]
    due: timedelta


class Customers(pydantic.RootModel[list[Customer]]):
    pass


class Page(pydantic.BaseModel, Generic[T]):
    items: list[T]


@pydantic.dataclasses.dataclass
class Checked:
    amount: Annotated[Decimal, pydantic.Field(gt=0)]
    at: datetime


class Cart(msgspec.Struct):
    owner: Customer
    files: list[Path]


class Point(NamedTuple):
    x: Decimal
    y: Decimal


class Settings(TypedDict):
    colour: Colour
    until: datetime


BERLIN = timezone(timedelta(hours=2))
AT = datetime(2030, 7, 1, 12, 30, 15, 250_000, tzinfo=BERLIN)
LINE = Line(Decimal("9.90"), Colour.RED, AT, Path("/srv/a.pdf"))
CUSTOMER = Customer(
    id=UUID(int=7),
    born=date(1990, 1, 31),
    balance=Decimal("0.10"),
    level=Level.HIGH,
    home=Path("/home/ada"),
    seenAt=datetime(2030, 1, 1, tzinfo=UTC),
)

VALUES: dict[str, tuple[Any, Any]] = {
    "uuid": (UUID, UUID(int=5)),
    "decimal": (Decimal, Decimal("1.10")),
    "datetime": (datetime, AT),
    "date": (date, date(2030, 2, 28)),
    "time": (time, time(23, 59, tzinfo=UTC)),
    "timedelta": (timedelta, timedelta(days=1, milliseconds=5)),
    "path": (Path, Path("/srv/x")),
    "enum": (Colour, Colour.RED),
    "str-enum": (Size, Size.LARGE),
    "int-enum": (Level, Level.HIGH),
    "bytes": (bytes, b"\x00\xff"),
    "dataclass": (Line, LINE),
    "nested-dataclass": (Basket, Basket(UUID(int=1), [LINE], {Size.LARGE: LINE})),
    "model": (Customer, CUSTOMER),
    "nested-model": (Invoice, Invoice(customer=CUSTOMER, lines=[LINE], due=timedelta(days=14))),
    "root-model": (Customers, Customers([CUSTOMER])),
    "generic-model": (Page[Customer], Page[Customer](items=[CUSTOMER])),
    "checked-dataclass": (Checked, Checked(Decimal("2.50"), AT)),
    "struct": (Cart, Cart(CUSTOMER, [Path("a")])),
    "named-tuple": (Point, Point(Decimal("1.5"), Decimal(2))),
    "typed-dict": (Settings, {"colour": Colour.RED, "until": AT}),
    "optional": (Customer | None, CUSTOMER),
    "nothing": (Line | None, None),
    "list": (list[Customer], [CUSTOMER, CUSTOMER]),
    "tuple": (tuple[UUID, Decimal], (UUID(int=1), Decimal("3.20"))),
    "set": (set[Size], {Size.LARGE}),
    "dict": (dict[UUID, Customer], {UUID(int=3): CUSTOMER}),
    "dict-of-lists": (dict[Colour, list[Path]], {Colour.RED: [Path("a"), Path("b")]}),
}

app = Stem()


def echo_of(kind: str, app: Stem) -> Task[..., Any]:
    """Returns its argument, after it has made sure that this is what was sent, with its own types."""
    hint, _ = VALUES[kind]

    def echo(value: Any) -> Any:
        check(kind, value)
        return value

    echo.__annotations__ = {"value": hint, "return": hint}
    made: Task[..., Any] = app.task(name=f"echo.{kind}", max_retries=0)(echo)
    return made


def gather_of(kind: str, app: Stem) -> Task[..., Any]:
    """Takes the values of a group."""
    hint, _ = VALUES[kind]

    def gather(values: Any) -> Any:
        for value in values:
            check(kind, value)
        return values

    gather.__annotations__ = {"values": list.__class_getitem__(hint), "return": list.__class_getitem__(hint)}
    made: Task[..., Any] = app.task(name=f"gather.{kind}", max_retries=0)(gather)
    return made


def check(kind: str, value: Any) -> None:
    """Equal is not enough: an enum of texts equals its text."""
    assert (value, shape(value)) == (VALUES[kind][1], shape(VALUES[kind][1]))


def shape(value: Any) -> Any:
    """The types within a value."""
    match value:
        case dict():
            return {shape(key): shape(each) for key, each in value.items()}
        case list() | tuple() | set():
            return type(value), tuple(shape(each) for each in value)
        case _ if hasattr(value, "__dict__") and not isinstance(value, Enum):
            return type(value), tuple((name, shape(each)) for name, each in vars(value).items())
        case _:
            return type(value)


for each in VALUES:
    echo_of(each, app)
    gather_of(each, app)
