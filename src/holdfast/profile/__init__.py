"""Measures an application on a trace: selectivities, CPU costs and rates. Read `measurement` first.

`describe` turns a measurement into the descriptor that the LAAR planner reads.
"""

from holdfast.profile.descriptor import describe
from holdfast.profile.measurement import Measurement, measure, task_shares
