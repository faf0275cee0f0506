"""A record behaves like a frozen dataclass with slots."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from kernelgen.records import record


@record
class Point:
    """A place."""

    x: int
    y: int = 0
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    x: int
    y: int = 0
    note: str = dataclasses.field(default="", compare=False)


def test_compares_hashes_and_shows_as_a_dataclass_does() -> None:
    for cls in (Point, Model):
        assert cls(1, 2, "a") == cls(1, 2, "b")
        assert cls(1, 2) != cls(1, 3)
        assert len({cls(1, 2, "a"), cls(1, 2, "b"), cls(2)}) == 2
        assert repr(cls(1)) == f"{cls.__name__}(x=1, y=0, note='')"
        assert dataclasses.replace(cls(1), y=5) == cls(1, 5)
        assert dataclasses.asdict(cls(1)) == {"x": 1, "y": 0, "note": ""}
        assert cls.__match_args__ == ("x", "y", "note")
    assert Point(1) != Model(1)


def test_cannot_be_changed() -> None:
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    with pytest.raises(AttributeError):
        point.z = 1  # type: ignore[attr-defined]
    assert not hasattr(point, "__dict__")


def test_can_be_copied_and_pickled() -> None:
    point = Point(1, 2, "a")
    assert copy.deepcopy(point) == point
    assert pickle.loads(pickle.dumps(point)) == point


def test_needs_its_fields() -> None:
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]
