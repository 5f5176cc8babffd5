"""The rule that chooses a configuration, with Poisson arrivals: alone, in the runtime's controller and in the simulator."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.control.observers.activation import ActivationController
from holdfast.documents.descriptor import DescriptorSource, Rate
from holdfast.planning.laar import Instance, Strategy, figure_1, static_replication
from holdfast.planning.laar.activation_rule import OVER, STEADY, TOLERANCE, choose_configuration, initial_state
from holdfast_papers.simulate import Deployment, SimulationSettings, rates_by_probability, simulate

SECONDS = 3600


def application(rates, shares):
    """Return Figure 1's pipeline with a source of the given rates and probabilities."""
    levels = tuple(
        Rate(name=f"level{n}", rate=rate, probability=share) for n, (rate, share) in enumerate(zip(rates, shares, strict=True))
    )
    return figure_1().model_copy(update={"sources": {"source": DescriptorSource(rates=levels)}})


@st.composite
def loads(draw):
    """Rates that differ at least by a half, and their shares of the time."""
    rates = [draw(st.floats(2.0, 5000.0))]
    for _ in range(draw(st.integers(1, 3))):
        rates.append(rates[-1] * draw(st.floats(1.5, 4.0)))
    weights = [draw(st.integers(1, 4)) for _ in rates]
    return rates, [weight / sum(weights) for weight in weights]


def chosen_by_controller(descriptor, counts):
    instance = Instance.of(descriptor)
    controller = ActivationController(Strategy.of(instance, static_replication(instance)), ())
    names = [configuration.name for configuration in descriptor.input_configurations]
    chosen = []
    for epoch, count in enumerate(counts):
        controller.follow(epoch, {"source": float(count)}, ())
        chosen.append(names.index(controller.current.name))
    return np.array(chosen)


def check_shares(chosen, shares):
    for configuration, share in enumerate(shares):
        assert abs((chosen == configuration).mean() - share) <= 0.05
    # Each level is visited twice; a step over several levels may stop at one of them.
    assert (np.diff(chosen) != 0).sum() <= 8 * len(shares)


@settings(max_examples=40, deadline=None)
@given(load=loads(), seed=st.integers(0, 10**6))
def test_time_in_each_configuration_follows_the_descriptor(load, seed):
    rates, shares = load
    descriptor, rng = application(rates, shares), np.random.default_rng(seed)
    trace = rates_by_probability(descriptor, seconds=SECONDS)
    deployment = Deployment.planned(descriptor, Instance.of(descriptor), static_replication(Instance.of(descriptor)))
    settings = SimulationSettings(step_s=0.5, interval_s=1.0)
    check_shares(simulate(deployment, trace, rng=rng, settings=settings).ledger.configuration[:SECONDS], shares)


@pytest.mark.parametrize("rates", [[4.0, 8.0], [40.0, 60.0, 120.0]])
def test_runtime_controller_spends_the_same_shares(rates):
    shares = [1 / len(rates)] * len(rates)
    descriptor, rng = application(rates, shares), np.random.default_rng(1)
    trace = rates_by_probability(descriptor, seconds=SECONDS)
    check_shares(chosen_by_controller(descriptor, rng.poisson(trace.rates[:, 0])), shares)


def follow(rates, counts):
    """Return the configurations that the rule chooses, and its state."""
    expected = np.array(rates, dtype=float)[:, None]
    state = initial_state(expected, 0)
    return [choose_configuration(state, expected, np.array([float(count)]), TOLERANCE, STEADY) for count in counts], state


@pytest.mark.parametrize("rate", [4.0, 40.0, 4000.0])
def test_mean_rate_of_a_configuration_does_not_leave_it(rate):
    counts = np.random.default_rng(1).poisson(rate, 1200)
    chosen, _ = follow([rate, 2 * rate], counts)
    assert np.mean(chosen) < 0.01


def test_rate_between_two_configurations_settles_in_the_heavier_one():
    counts = np.random.default_rng(1).poisson(60, 600)
    chosen, _ = follow([40, 80], counts)
    assert chosen[-300:] == [1] * 300


def test_bursty_arrivals_do_not_flap():
    counts = np.random.default_rng(1).negative_binomial(1000 / 9, 0.1, 1800)  # ten times the variance of a Poisson process
    chosen, _ = follow([1000, 1500], counts)
    assert (np.diff(chosen) != 0).sum() <= 4


def test_doubled_rate_of_a_regular_source_is_noticed_at_once():
    chosen, _ = follow([4, 8], [4] * 120 + [8, 8])
    assert chosen[-2:] == [1, 1]


def test_rates_above_every_configuration_are_marked():
    _, state = follow([400, 800], [400] * 20 + [1600])
    assert state.numbers[OVER] == 0  # it has just stepped up
    _, state = follow([400, 800], [400] * 20 + [1600, 1600])
    assert state.numbers[OVER] == 1
