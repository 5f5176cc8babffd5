"""Opens tables of an Iceberg catalog, and turns the errors of pyiceberg into errors that say what to do."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy.exc import OperationalError

from holdfast.errors import ExternalError, HoldfastError


def load_catalog(catalog: str | Mapping[str, str], what: str) -> Any:
    """Return the catalog with this name in pyiceberg's configuration, or with these properties."""
    try:
        from pyiceberg import catalog as catalogs
    except ImportError as error:
        raise HoldfastError(f"{what} needs the package pyiceberg; run: pip install 'holdfast[iceberg]'") from error
    name, properties = (catalog, {}) if isinstance(catalog, str) else ("holdfast", dict(catalog))
    with iceberg_errors(what, f"the Iceberg catalog '{properties.get('uri', name)}'"):
        return catalogs.load_catalog(properties.pop("name", name), **properties)


@contextmanager
def iceberg_errors(what: str, target: str) -> Iterator[None]:
    """Turn an error about `target` into an ExternalError if waiting may help, else into a HoldfastError."""
    from pyiceberg import exceptions

    missing = (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError)
    forbidden = (exceptions.ForbiddenError, exceptions.UnauthorizedError, PermissionError)
    try:
        yield
    except missing as error:
        raise HoldfastError(f"{what}: {target} does not exist; create it or correct its name") from error
    except forbidden as error:
        raise HoldfastError(f"{what}: {target} refuses access: {_first_line(error)}; ask for the permission") from error
    except FileNotFoundError:
        raise
    except (OSError, OperationalError, exceptions.RESTError, exceptions.CommitStateUnknownException) as error:
        raise ExternalError(f"{what}: {target} cannot be used now: {_first_line(error)}; is it running?") from error
    except ValueError as error:
        raise HoldfastError(f"{what}: {target} cannot be used: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
