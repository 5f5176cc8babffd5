"""The command holdfast reproduce generate: writes random applications and topologies like those of the papers."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel

from holdfast.cli import DOCUMENTS, FILE, check_output, json_option, write_output
from holdfast.errors import CompoundError, HoldfastError
from holdfast.terminal import print_json
from holdfast_papers.laar import generator as laar
from holdfast_papers.ppa import generator as ppa


@click.command("generate")
@click.argument("kind", type=click.Choice(["application", "topology"]))
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed: the same gives the same documents.")
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="How many; above 1 --out is a folder.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting; ranges as LOW:HIGH. Repeatable.")
@click.option("--out", type=FILE, required=True, help="File to write (JSON or YAML by suffix), or folder.")
@click.option("--force", is_flag=True, help="Replace existing files.")
@json_option
def generate(kind: str, seed: int, count: int, settings: tuple[str, ...], out: Path, force: bool, as_json: bool) -> None:
    """Write random applications (LAAR section 5.2) or task topologies (PPA section VI-C).

    The n-th document depends only on the seed, n and the ranges. An unknown name in --set lists all names.

    \b
    Examples:
      holdfast reproduce generate topology --seed 7 --out topology.yaml
      holdfast reproduce generate topology --set parallelism=1:40 --set zipf=0.1 --set kind=structured --out topology.yaml
      holdfast reproduce generate application --set nodes=4 --set pes_per_node=2:6 --count 20 --out corpus
    """
    paths = [out] if count == 1 else [out / f"{kind}{n:04d}.yaml" for n in range(count)]
    if count > 1 and (out.suffix in DOCUMENTS or out.is_file()):
        raise HoldfastError(f"--out '{out}' must be a folder for {count} documents; give one without a suffix")
    for path in paths:
        check_output(path)
        if path.exists() and not force:
            raise HoldfastError(f"'{path}' exists already; give another --out, or --force to replace it")
    documents: list[BaseModel]  # all are drawn before any is written, so that an error leaves no partial corpus
    if kind == "application":
        documents = list(laar.corpus(seed, count, ranges=_ranges(laar.Ranges(), settings)))
    else:
        documents = list(ppa.corpus(seed, count, ranges=_ranges(ppa.Ranges(), settings)))
    for path, document in zip(paths, documents, strict=True):
        write_output(path, document)
    if as_json:
        print_json({"kind": kind, "seed": seed, "written": [str(path) for path in paths]})
    else:
        click.echo(f"wrote {paths[0]}" if count == 1 else f"wrote {count} documents in {out}", err=True)


def _ranges(base: Any, settings: tuple[str, ...]) -> Any:
    """Return the ranges `base` with the given settings. Raises HoldfastError with every error of them."""
    defaults = {field.name: getattr(base, field.name) for field in fields(base)}
    values: dict[str, Any] = {}
    errors = []
    for text in settings:
        name, _, value = text.partition("=")
        if name in defaults and name in values:
            errors.append(f"--set gives '{name}' twice; give it once")
        elif name in defaults:
            try:
                values[name] = _parse(defaults[name], value)
            except ValueError:
                errors.append(f"--set {name} wants a value such as {_format(defaults[name])}, got '{value}'")
    unknown = [name for name in dict.fromkeys(text.partition("=")[0] for text in settings) if name not in defaults]
    if unknown:
        listing = ", ".join(f"{n}={_format(v)}" for n, v in defaults.items())
        errors.append(f"--set knows no {', '.join(map(repr, unknown))}; names and their defaults are: {listing}")
    try:
        ranges = type(base)(**{**defaults, **values})
    except CompoundError as error:
        errors.extend(error.errors)
    if len(errors) == 1:
        raise HoldfastError(errors[0])
    if errors:
        raise CompoundError("what --set gives", errors)
    return ranges


def _parse(like: Any, text: str) -> object:
    """Parse a text as a value of the same type as `like`."""
    if isinstance(like, tuple):
        low, colon, high = text.partition(":")
        return _parse(like[0], low), _parse(like[0], high if colon else low)
    return type(like)(text)


def _format(value: object) -> str:
    if isinstance(value, tuple):
        return ":".join(map(_format, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
