"""Read column mappings: for each source, the SQL expression over a file's columns that gives each column of the source."""

from pathlib import Path

from holdfast.errors import DocumentError, HoldfastError, did_you_mean


def read_columns(path: Path | None, sources: list[str]) -> dict[str, dict[str, str]] | None:
    """Return the mapping of columns for each source. A file for one source may leave out the source's name."""
    if path is None:
        return None
    from ruamel.yaml import YAML  # imported late: every command loads this module
    from ruamel.yaml.error import YAMLError

    try:
        data = YAML(typ="safe").load(path.read_text())
    except OSError as error:
        raise HoldfastError(f"mapping '{path}' cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise HoldfastError(f"mapping '{path}' cannot be read: it is not UTF-8 text") from error
    except YAMLError as error:
        raise DocumentError(f"mapping '{path}'", [" ".join(str(error).split())]) from error
    if isinstance(data, dict) and len(sources) == 1 and not isinstance(data.get(sources[0]), dict):
        data = {sources[0]: data}
    errors = []
    if not isinstance(data, dict):
        errors.append(f"wanted a table of columns, got {type(data).__name__}")
    else:
        errors += [
            f"names source '{name}'; sources are: {', '.join(sources)}{did_you_mean(str(name), sources)}"
            for name in data
            if name not in sources
        ]
        errors += [
            f"column '{column}' of '{name}' must be a SQL expression in quotes, got {value!r}"
            for name, table in data.items()
            for column, value in (table.items() if isinstance(table, dict) else [("?", table)])
            if not isinstance(value, str)
        ]
    if errors:
        raise DocumentError(f"mapping '{path}'", errors)
    return {name: dict(table) for name, table in data.items()}
