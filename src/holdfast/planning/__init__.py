"""Planning: which replicas an application should have, and when they are active.

`ppa` plans the replicas of a task topology within a budget (ICDE 2016). `laar` plans a replica activation strategy for an
application descriptor (EDBT 2014). Each package's docstring says where the paper's algorithms are. `document_kinds.py`
recognises and reads the documents, and `solver_processes.py` runs solvers in processes of their own.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.planning.document_kinds import DESCRIPTOR, read_kind
    from holdfast.planning.solver_processes import map_in_processes
else:
    __getattr__ = lazy_exports(__name__)
