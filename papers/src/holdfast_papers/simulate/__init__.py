"""The cluster simulator and its command `holdfast simulate`: a model of nodes, queues and failures for capacity planning.

The simulator does not run the real code: it starts no Spark and no PE, and its tuples are divisible quantities. Read
`simulation.py` first (`simulate`, the entry point), then `kernel.py` (one time step). `deployment.py` and `faults.py` turn
documents into arrays, `state.py` defines those arrays, and `outcome.py` holds the results.
"""

from holdfast_papers.simulate.deployment import Deployment
from holdfast_papers.simulate.outcome import Recovery, SimulatedEvent, SimulationOutcome
from holdfast_papers.simulate.rates import RateTrace, rates_by_probability, read_rates, steady_rates
from holdfast_papers.simulate.settings import SCHEMES, Control, FailureHandling, Scheme, SimulationSettings
from holdfast_papers.simulate.simulation import simulate
