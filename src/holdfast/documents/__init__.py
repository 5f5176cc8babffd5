"""Documents that go in and out as files: job, plan parts, descriptor, topology, fault schedule, history. Read `document.py` first:
it checks a YAML or JSON document and reports every error in it at once."""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.documents.descriptor import (
        MAX_REPLICAS,
        Descriptor,
        DescriptorNode,
        DescriptorSink,
        DescriptorSource,
        Input,
        JointRate,
        Pe,
        PricingContract,
        Rate,
        Sla,
    )
    from holdfast.documents.document import check_document, document_text, read_document, write_document
    from holdfast.documents.fault_schedule import Schedule, ScheduledFault, Stalls
    from holdfast.documents.history import HistoryEvent, read_history
    from holdfast.documents.job import Contract, Feed, Job
    from holdfast.documents.light_pe import LightPe
    from holdfast.documents.partitioning import Partitioning
    from holdfast.documents.topology import MAX_DEPTH, MAX_TASKS, Floats, TaskOperator, Topology
    from holdfast.documents.whole_files import read_json, write_whole, writing
else:
    __getattr__ = lazy_exports(__name__)
