"""Runs jobs on a local cluster of real processes, injects faults and checks the histories. Read `local_cluster.py` first, then
`job_run.py` and `checkers.py`."""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.job_layout import layout_of
    from holdfast.trial.checkers import all_corrected, every_fault_injected, recoveries
    from holdfast.trial.completeness import internal_completeness
    from holdfast.trial.job_run import JobRun, Show, run_job
    from holdfast.trial.local_cluster import LocalCluster
    from holdfast.trial.process_cluster import HOLDFAST, ProcessCluster
    from holdfast.trial.second_law import differences
    from holdfast.trial.switch_times import describe_switch, switches
else:
    __getattr__ = lazy_exports(__name__)
