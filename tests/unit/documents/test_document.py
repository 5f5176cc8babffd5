"""Documents are read whole or refused with every error and its place."""

import json
import os
from collections.abc import Iterable
from typing import Literal

import pytest
from pydantic import Field

from holdfast.documents import document as documents
from holdfast.documents import yaml_text
from holdfast.documents.document import (
    Document,
    FieldError,
    Part,
    at_least,
    document_text,
    parse_document,
    read_document,
    write_document,
)
from holdfast.documents.fault_schedule import Schedule
from holdfast.documents.job import Job
from holdfast.errors import DocumentError


class Leg(Part):
    length: float
    shoes: tuple[str, ...] = ()


class Animal(Document):
    name: str
    legs: dict[str, Leg] = Field(default_factory=dict)
    tail: bool = False
    count: int = 0

    def errors(self) -> Iterable[FieldError]:
        for name, leg in self.legs.items():
            yield from at_least(0, ("legs", name, "length"), leg.length)


GOOD = "name: dog\nlegs:\n  left: {length: 1}\n  right:\n    length: 2.5e0\n    shoes: [a, b]\n"


def errors_of(text, **options):
    with pytest.raises(DocumentError) as caught:
        parse_document(text, Animal, thing="animal.yaml", **options)
    return caught.value.errors


def test_yaml_and_json_give_the_same_document(tmp_path):
    animal = parse_document(GOOD, Animal)
    for name in ("animal.yaml", "animal.json"):
        write_document(tmp_path / name, animal)
        assert read_document(tmp_path / name, Animal) == animal
    assert json.loads((tmp_path / "animal.json").read_text())["legs"]["right"]["shoes"] == ["a", "b"]


def test_all_errors_are_reported_with_line_and_path():
    text = "name: dog\ncolour: red\nlegs:\n  left: {length: -1}\n  right:\n    length: -2\n"
    assert errors_of(text) == (
        "colour (line 2): is no field of this document; its fields are: count, legs, name, tail",
        "legs.left.length (line 4): wanted a number of at least 0, got -1.0",
        "legs.right.length (line 6): wanted a number of at least 0, got -2.0",
    )


def test_wrong_types_and_missing_fields_name_what_was_wanted():
    text = "legs: {left: {length: long, shoes: [1]}, right: {}}\ntail: 'no'\ncount: 1.5\n"
    assert errors_of(text) == (
        "name (line 1): is missing",
        'legs.left.length (line 1): wanted a number, got "long"',
        "legs.left.shoes[0] (line 1): wanted text, got 1",
        "legs.right.length (line 1): is missing",
        'tail (line 2): wanted true or false, got "no"',
        "count (line 3): wanted a whole number, got 1.5",
    )


def test_yaml_1_2_reads_no_as_text():
    assert parse_document("name: no\n", Animal).name == "no"


def test_numbers_as_keys_are_names():
    assert list(parse_document("name: a\nlegs: {1: {length: 2}}\n", Animal).legs) == ["1"]


@pytest.mark.parametrize("json_text", [False, True])
def test_duplicate_key_is_rejected(json_text):
    text = '{"name": "a",\n "name": "b"}'
    (error,) = errors_of(text, json_text=json_text)
    assert "key 'name' occurs twice" in error
    assert json_text or "(line 2)" in error


def test_broken_syntax_is_reported_with_its_line():
    assert errors_of("name: [a\n") == ("line 2, column 1: not YAML: expected ',' or ']', but got '<stream end>'",)
    assert errors_of('{"name": }', json_text=True) == ("line 1, column 10: not JSON: Expecting value",)


def test_empty_document_and_a_list_are_no_mapping():
    assert errors_of("") == ("wanted a mapping, got null",)
    assert errors_of("- a\n") == ('wanted a mapping, got ["a"]',)


def test_document_that_is_too_large_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_SIZE_BYTES", 10)
    path = tmp_path / "animal.yaml"
    path.write_text(GOOD)
    with pytest.raises(DocumentError, match=f"animal.yaml: wanted at most 10 bytes, got {len(GOOD)}"):
        read_document(path, Animal)


def test_aliases_that_grow_without_bound_are_rejected(monkeypatch):
    monkeypatch.setattr(yaml_text, "MAX_NODES", 1000)
    text = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
    (error,) = errors_of(text + "d: [*c,*c,*c,*c]\n")
    assert error == "not YAML: wanted at most 1000 values once aliases are followed"


def test_alias_that_contains_itself_is_rejected():
    (error,) = errors_of("a: &a [*a]\n")
    assert "not YAML" in error or "nested too deeply" in error


def test_tag_that_would_run_code_is_rejected():
    (error,) = errors_of("name: !!python/object/apply:os.system ['true']\n")
    assert "wanted text" in error or "not YAML" in error


def test_missing_file_and_invalid_utf8_are_reported(tmp_path):
    with pytest.raises(DocumentError, match="no such file"):
        read_document(tmp_path / "none.yaml", Animal)
    (tmp_path / "bytes.yaml").write_bytes(b"name: \xff")
    with pytest.raises(DocumentError, match="wanted UTF-8 text, got 0xff at byte 6"):
        read_document(tmp_path / "bytes.yaml", Animal)


def test_failed_write_leaves_only_the_old_document(tmp_path, monkeypatch):
    path = tmp_path / "animal.yaml"
    write_document(path, Animal(name="old"))

    def full(_):
        raise OSError("no space")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_document(path, Animal(name="new"))
    assert read_document(path, Animal).name == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["animal.yaml"]


def test_document_created_in_python_is_checked():
    with pytest.raises(ValueError, match=r"legs\.left\.length: wanted a number of at least 0, got -1"):
        Animal(name="dog", legs={"left": Leg(length=-1)})


def test_small_numbers_survive_a_round_trip():
    animal = Animal(name="a", legs={"l": Leg(length=1e-06)})
    assert parse_document(document_text(animal), Animal) == animal


LONG = "9" * 5000


def test_number_with_too_many_digits_is_reported_with_its_place():
    for text, json_text, message in (
        (f"name: ox\nlegs: {LONG}\n", False, r"legs \(line 2\): wanted a number of at most 300 digits, got one of 5000"),
        (f"name: ox\nlegs: 0x{LONG}\n", False, r"legs \(line 2\): wanted a number of at most 300 digits, got one of 5002"),
        (f'{{"name": "ox",\n "legs": {LONG}}}', True, "line 2: wanted a number of at most 300 digits, got one of 5000"),
    ):
        with pytest.raises(DocumentError, match=message):
            parse_document(text, Animal, json_text=json_text)


def test_invalid_date_is_reported_with_its_place():
    with pytest.raises(DocumentError, match=r'name \(line 1\): wanted a timestamp, got "2001-13-45"'):
        parse_document("name: 2001-13-45\n", Animal)


def test_duplicate_json_key_is_reported_with_its_line():
    with pytest.raises(DocumentError, match=r"name \(line 2\): key 'name' occurs twice; keep one"):
        parse_document('{"name": "ox",\n "name": "cow"}', Animal, json_text=True)


def test_invalid_choice_masks_no_other_error():
    text = "job: a/b\nhost_kind: light\npes: {x: {lives_s: -1}}\n"
    text += "policy: {restart: often, backoff_s: -1}\nfeed: {speed: 0}\nnothing: 1\n"
    with pytest.raises(DocumentError) as caught:
        parse_document(text, Job)
    places = [error.split(" ")[0] for error in caught.value.errors]
    assert sorted(places) == ["feed.speed", "job", "nothing", "pes.x.lives_s", "policy.backoff_s", "policy.restart"]


def test_invalid_choice_is_reported_once():
    class Meal(Document):
        course: Literal["soup", "cake"]
        sides: tuple[Literal["bread", "salt"], ...] = ()

    for text, place in (("course: stew", "course"), ("course: soup\nsides: [salt, pepper, bread]", "sides[1]")):
        with pytest.raises(DocumentError) as caught:
            parse_document(text, Meal)
        (error,) = caught.value.errors
        assert error.startswith(f"{place} (line ")


def test_wrong_shape_masks_no_errors_of_faults():
    text = """seed: x
faults:
- {at_s: -1, kind: crash, what: disk}
- {at_s: 1, kind: slow, what: pe, target: vwap/0, by_s: fast}
- {kind: hog, what: node, target: [n1], for_s: .inf}
random: {count: -1}
"""
    with pytest.raises(DocumentError) as caught:
        parse_document(text, Schedule)
    assert {error.split(":")[0] for error in caught.value.errors} == {
        "seed (line 1)",
        "faults[0].at_s (line 3)",
        "faults[0].what (line 3)",
        "faults[1].target (line 4)",
        "faults[1].by_s (line 4)",
        "faults[1].for_s (line 4)",
        "faults[2].at_s (line 5)",
        "faults[2].for_s (line 5)",
        "random.count (line 6)",
        "random.to_s (line 6)",
    }


def test_number_of_reported_errors_is_limited():
    errors = errors_of(json.dumps({"name": "ox", **{f"f{n}": n for n in range(300)}}), json_text=True)
    assert len(errors) == 201 and errors[0].startswith("f0 (line 1): is no field") and errors[-1] == "and 100 more"
