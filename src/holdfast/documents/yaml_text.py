"""Read YAML 1.2 as plain values with the line of every place, and write plain values as YAML."""

import math
from io import StringIO

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from holdfast.documents.document import MAX_DIGITS, Place, format_place, format_value, too_many_digits
from holdfast.errors import DocumentError

MAX_NODES = 2_000_000
MAX_BITS = int(MAX_DIGITS / math.log10(2)) + 1


def dump_yaml(data: object) -> str:
    """Return plain values as YAML text."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 120
    out = StringIO()
    yaml.dump(data, out)
    return out.getvalue()


def load_yaml(text: str, thing: str) -> tuple[object, dict[Place, int]]:
    """Return the values in a text and the line of each place. Raises DocumentError, which names the text `thing`."""
    yaml = YAML(typ="safe", pure=True)
    try:
        node = yaml.compose(StringIO(text))
        walk = _Walk(yaml)
        data = None if node is None else walk.value(node, ())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise DocumentError(thing, [f"{where}not YAML: {error.problem or error.context}"]) from None
    except YAMLError as error:
        raise DocumentError(thing, [f"not YAML: {error}"]) from None
    except RecursionError:
        raise DocumentError(thing, ["nested too deeply, or an alias that contains itself"]) from None
    if walk.errors:
        raise DocumentError(thing, walk.errors)
    return data, walk.lines


class _Walk:
    """Turns composed YAML nodes into plain values and records the line of every place."""

    def __init__(self, yaml: YAML) -> None:
        self.constructor = yaml.constructor
        self.lines: dict[Place, int] = {}
        self.errors: list[str] = []
        self.nodes = 0

    def value(self, node: Node, place: Place) -> object:
        self.nodes += 1
        if self.nodes > MAX_NODES:  # aliases of aliases can grow without bound
            raise YAMLError(f"wanted at most {MAX_NODES} values once aliases are followed")
        self.lines.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, MappingNode):
            return self.mapping(node, place)
        if isinstance(node, SequenceNode):
            return [self.value(child, (*place, index)) for index, child in enumerate(node.value)]
        try:
            value = self.constructor.construct_object(node, deep=True)
        except ValueError:  # for example an impossible date, or more digits than Python reads
            value = node.value
            self.errors.append(f"{self._where(place)}: {_unreadable(node)}")
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            self.errors.append(f"{self._where(place)}: {too_many_digits(len(node.value))}")
            return 0
        return value

    def _where(self, place: Place) -> str:
        return f"{format_place(place) or 'top'} (line {self.lines[place]})"

    def mapping(self, node: MappingNode, place: Place) -> dict[str, object]:
        mapping: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if isinstance(key_node, MappingNode | SequenceNode):
                self.errors.append(f"{format_place(place) or 'top'} (line {line}): wanted a plain key, got a list or mapping")
                continue
            key = str(key_node.value)
            if key in mapping:
                self.errors.append(f"{format_place((*place, key))} (line {line}): key '{key}' occurs twice; keep one")
                continue
            self.lines[(*place, key)] = line
            mapping[key] = self.value(value_node, (*place, key))
        return mapping


def _unreadable(node: Node) -> str:
    kind = str(node.tag).rpartition(":")[2]
    return too_many_digits(len(node.value)) if kind == "int" else f"wanted a {kind}, got {format_value(node.value)}"
