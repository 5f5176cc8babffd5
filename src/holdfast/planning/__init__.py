"""Plans which replicas to run: LAAR's strategies in `laar`, PPA's plans in `ppa`."""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

__all__ = [
    "map_in_processes",
]

if TYPE_CHECKING:
    from holdfast.planning.solver_processes import map_in_processes
else:
    __getattr__ = lazy_exports(__name__)
