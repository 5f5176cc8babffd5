"""What failures do to a simulated application, scheme by scheme."""

import numpy as np
import pytest

from holdfast.documents.fault_schedule import Schedule, ScheduledFault
from holdfast.errors import CompoundError, DocumentError, HoldfastError, TraceError
from holdfast.planning.laar import Instance, Strategy, static_replication
from holdfast.planning.laar.examples import figure_1
from holdfast.simulate import (
    Control,
    Deployment,
    FailureHandling,
    RateTrace,
    SimulationSettings,
    drawn_rates,
    read_rates,
    simulate,
    steady_rates,
)
from holdfast_papers.ppa.recovery_simulation import deployed, figure_6


def pipeline(*, replicated: bool) -> Deployment:
    """Figure 1's pipeline on nodes with room to spare, both replicas active or only the first."""
    descriptor = figure_1()
    descriptor = descriptor.model_copy(
        update={"nodes": {h: x.model_copy(update={"cores": 4.0}) for h, x in descriptor.nodes.items()}}
    )
    instance = Instance.of(descriptor)
    active = static_replication(instance)
    active[:, :, 1] &= replicated
    return Deployment.planned(descriptor, instance, active)


def crash(target: str, *, at_s: float = 20, what: str = "pe", back_after_s: float | None = None) -> Schedule:
    return Schedule(faults=(ScheduledFault(at_s=at_s, kind="crash", what=what, target=(target,), back_after_s=back_after_s),))


def run(deployment: Deployment, schedule: Schedule, **care: object):
    how = SimulationSettings(drain_s=30, care=FailureHandling(**care))
    return simulate(deployment, steady_rates(deployment.descriptor, "low", seconds=60), schedule=schedule, settings=how)


def test_a_secondary_takes_over_and_only_what_came_before_detection_is_lost():
    outcome = run(pipeline(replicated=True), crash("pe1.0"), detect_s=1.0)
    (taken,) = outcome.returns()
    assert (taken.pe, taken.by, taken.failed_s, taken.detected_s) == ("pe1", "takeover", 20.0, 21.0)
    assert outcome.output("sink").sum() == pytest.approx(4 * 59, abs=0.5)


@pytest.mark.parametrize(("at_s", "since_s"), [(20.0, 7.0), (22.0, 9.0), (24.0, 11.0), (25.0, 7.0)])
def test_a_takeover_sends_all_that_was_put_out_since_the_dead_primary_was_last_synchronised(at_s, since_s):
    outcome = run(pipeline(replicated=True), crash("pe1.0", at_s=at_s), detect_s=7.0, scheme="checkpoint", sync_s=5.0, resend_s=0.1)
    (taken,) = outcome.returns()
    # Four tuples a second, however long it took to notice that none came.
    assert taken.latency_s == pytest.approx(0.1 * 4 * since_s, abs=0.11)


def test_the_sources_send_a_whole_window_again_though_everything_upstream_was_dead_for_long():
    def replayed(detect_s: float) -> float:
        lost = crash("node1", what="node", at_s=40)
        return float(run(pipeline(replicated=False), lost, scheme="source", window_s=5.0, detect_s=detect_s).state.replayed.sum())

    # Twenty tuples through both PEs.
    assert replayed(15.0) == pytest.approx(replayed(1.0), rel=1e-3) == pytest.approx(2 * 4 * 5, rel=1e-3)


def test_the_state_that_a_pe_loads_is_that_of_before_its_upstream_died():
    def used(load_tuple_s: float, detect_s: float) -> float:
        lost = crash("node1", what="node", at_s=40)
        care = {"scheme": "checkpoint", "window_s": 5.0, "load_tuple_s": load_tuple_s, "detect_s": detect_s}
        return float(run(pipeline(replicated=False), lost, **care).cpu_s.sum())

    for detect_s in (1.0, 15.0):
        assert used(0.01, detect_s) - used(0.0, detect_s) == pytest.approx(0.01 * 2 * 4 * 5, abs=0.01)


@pytest.mark.parametrize("replicated", [False, True])
def test_bringing_replicas_back_takes_cpu_time_of_their_nodes(replicated):
    def after(restart_cost_s: float):
        care = {"scheme": "checkpoint", "restart_cost_s": restart_cost_s}
        return run(pipeline(replicated=replicated), crash("node1", what="node"), **care)

    free, costly = after(0.0), after(3.0)
    assert costly.cpu_s.sum() - free.cpu_s.sum() == pytest.approx(2 * 3.0)  # one of each PE was there
    assert costly.output("sink").sum() == pytest.approx(free.output("sink").sum())
    for cheap, dear in zip(free.returns(), costly.returns(), strict=True):
        assert dear.latency_s - cheap.latency_s == pytest.approx(0.0 if replicated else 2 * 3.0 / 4, abs=0.1)


def test_where_outputs_are_kept_a_takeover_loses_nothing():
    outcome = run(pipeline(replicated=True), crash("pe1.0"), detect_s=1.0, scheme="checkpoint")
    assert outcome.output("sink").sum() == pytest.approx(4 * 60)


def test_a_lone_replica_that_comes_back_by_itself_misses_what_came_meanwhile():
    outcome = run(pipeline(replicated=False), crash("node1", what="node", back_after_s=16), detect_s=1.0)
    missing = 60 * 4 - outcome.output("sink").sum()
    assert missing == pytest.approx(4 * 16.5, abs=1.0)  # and half a second until it has a state
    assert outcome.internal_completeness == pytest.approx(1 - 16.5 / 60, abs=0.02)


def test_a_replica_that_never_comes_back_leaves_nothing():
    outcome = run(pipeline(replicated=False), crash("pe2"))
    assert outcome.output("sink").sum() == pytest.approx(4 * 20, abs=0.5)


@pytest.mark.parametrize("scheme", ["checkpoint", "source"])
def test_checkpoint_and_source_replay_lose_nothing_and_take_longer_the_more_there_is_to_replay(scheme):
    def latency(**care: float) -> float:
        outcome = run(pipeline(replicated=False), crash("pe2"), scheme=scheme, **care)
        (back,) = outcome.returns()
        assert back.by == scheme
        assert outcome.output("sink").sum() == pytest.approx(4 * 60)
        return back.latency_s

    if scheme == "checkpoint":
        assert latency(checkpoint_s=2) < latency(checkpoint_s=17)
    else:
        assert latency(window_s=5) < latency(window_s=20)


def test_all_at_once_takes_longer_than_one_alone():
    alone = run(pipeline(replicated=False), crash("pe2"), scheme="checkpoint", checkpoint_s=15)
    together = run(pipeline(replicated=False), crash("node1", what="node"), scheme="checkpoint", checkpoint_s=15)
    last = max(back.recovered_s for back in together.returns())
    assert last >= alone.returns()[0].recovered_s
    assert len(together.returns()) == 2
    assert together.output("sink").sum() == pytest.approx(4 * 60)


def test_a_pe_whose_checkpoint_is_younger_than_that_of_its_upstream_waits_until_that_is_there_again():
    outcome = run(pipeline(replicated=False), crash("node1", what="node", at_s=25), scheme="checkpoint", checkpoint_s=15)
    back = {found.pe: found.recovered_s for found in outcome.returns()}
    assert back["pe1"] > 25 + 1 + 2 + 0.9  # noticed, started again, and ten seconds of tuples on four cores
    assert back["pe2"] >= back["pe1"]


def test_by_the_epoch_a_pe_that_is_behind_runs_everything_it_missed_as_one_job():
    deployment = pipeline(replicated=False)
    trace = steady_rates(deployment.descriptor, "low", seconds=60)
    how = SimulationSettings(
        drain_s=30,
        epoch_s=1.0,
        job_s=0.3,
        queue_s=float("inf"),
        care=FailureHandling(scheme="checkpoint", detect_s=3.0, restart_s=5.0),
    )
    calm, struck = (simulate(deployment, trace, schedule=s, settings=how) for s in (Schedule(), crash("pe2", at_s=20.5)))
    assert struck.output("sink").sum() == pytest.approx(4 * 60) == pytest.approx(calm.output("sink").sum())
    (back,) = struck.returns()
    assert (back.by, back.detected_s) == ("checkpoint", 23.5)
    # One job over what came since the checkpoint: 0.3 s and a tenth of a second for each of 4 tuples of at most 19 epochs.
    assert 5.0 < back.latency_s < 5.0 + 0.3 + 0.1 * 4 * 19 + 0.2
    # Eight epochs that would have been jobs of their own were not.
    saved = calm.cpu_s.sum() + 0.1 * struck.state.replayed.sum() - struck.cpu_s.sum()
    assert saved == pytest.approx(0.3 * 8, abs=0.7)


def test_by_the_epoch_output_leaves_when_the_whole_job_is_done():
    deployment = pipeline(replicated=True)
    how = SimulationSettings(epoch_s=2.0, job_s=0.0, interval_s=0.05, care=FailureHandling(scheme="checkpoint"))
    outcome = simulate(deployment, steady_rates(deployment.descriptor, "low", seconds=20), settings=how)
    made = outcome.ledger.output[:, 1]
    assert sorted(set(made.round(6))) == [0.0, 8.0]  # two seconds of four tuples at once, or nothing


def test_a_queue_without_end_drops_nothing():
    slow = ScheduledFault(at_s=0, kind="slow", what="pe", target=("pe1",), for_s=60, by_s=9.0)
    deployment = pipeline(replicated=False)
    trace = steady_rates(deployment.descriptor, "low", seconds=60)
    outcome = simulate(deployment, trace, schedule=Schedule(faults=(slow,)), settings=SimulationSettings(queue_s=float("inf")))
    assert outcome.dropped == 0
    assert outcome.ledger.queued[-1].sum() > 100


def test_epochs_want_a_log_that_keeps_them():
    with pytest.raises(CompoundError, match="epoch_s wants the scheme 'checkpoint' for every PE: a log of epochs keeps"):
        SimulationSettings(epoch_s=1.0)
    with pytest.raises(CompoundError, match=r"epoch_s wants at least a step of 0.05 s, got 0.01"):
        SimulationSettings(epoch_s=0.01, care=FailureHandling(scheme="checkpoint"))
    deployment = pipeline(replicated=False)
    with pytest.raises(HoldfastError, match="what a job costs is given for PE 'pe9', which the descriptor does not have"):
        deployment.plant(SimulationSettings(jobs={"pe9": 1.0}))


def test_the_controller_follows_the_load_and_needs_a_lighter_one_to_last():
    descriptor = figure_1()
    instance = Instance.of(descriptor)
    active = np.array([[[True, True], [True, True]], [[False, True], [True, False]]])
    deployment = Deployment.planned(descriptor, instance, active)
    outcome = simulate(deployment, drawn_rates(descriptor, np.random.default_rng(1), visits=1))
    changes = [(event.at_s, event.about["configuration"]) for event in outcome.history() if event.kind == "configuration"]
    assert [name for _, name in changes] == ["high"]
    assert 240 < changes[0][0] < 242
    assert outcome.internal_completeness > 0.98


def test_a_controller_that_replaces_the_dead_keeps_what_the_strategy_alone_would_lose():
    descriptor = figure_1()
    instance = Instance.of(descriptor)
    lone = static_replication(instance)
    lone[:, :, 1] = False
    deployment = Deployment.planned(descriptor, instance, lone)
    trace = steady_rates(descriptor, "low", seconds=60)
    kept, lost = (
        simulate(deployment, trace, schedule=crash("pe1.0"), settings=SimulationSettings(control=Control(replace_dead=replaces)))
        for replaces in (True, False)
    )
    assert kept.internal_completeness > 0.95
    assert lost.internal_completeness < 0.5


@pytest.mark.parametrize("scheme", ["none", "checkpoint"])
def test_what_waits_is_handed_over_where_another_replica_takes_the_place_of_one(scheme):
    descriptor = figure_1()
    instance = Instance.of(descriptor)
    active = np.array([[[True, False], [False, True]], [[False, True], [True, False]]])  # low, high
    deployment = Deployment.planned(descriptor, instance, active)
    low, high = (steady_rates(descriptor, name, seconds=10).rates for name in ("low", "high"))
    trace = RateTrace(("source",), np.concatenate([low, 2 * high, low, low]))
    how = SimulationSettings(queue_s=float("inf"), interval_s=0.05, drain_s=60, care=FailureHandling(scheme=scheme))
    outcome = simulate(deployment, trace, settings=how)
    assert [event.kind for event in outcome.history()] == ["configuration", "configuration"]
    assert outcome.ledger.queued.max() > 10
    assert outcome.internal_completeness == pytest.approx(1.0)
    assert outcome.ledger.worked[-1] == pytest.approx(outcome.ledger.processed.sum(axis=0))


def test_what_waits_for_one_that_stood_in_and_died_outlives_a_new_configuration():
    deployment = pipeline(replicated=False)
    low, high = (steady_rates(deployment.descriptor, name, seconds=20).rates for name in ("low", "high"))
    trace = RateTrace(("source",), np.concatenate([low, high]))
    dead = (*crash("node1", what="node", at_s=15, back_after_s=60).faults, *crash("pe1.1", at_s=18).faults)
    care = FailureHandling(scheme="checkpoint", detect_s=1.0, restart_s=4.0, spares=False)
    how = SimulationSettings(drain_s=60, control=Control(replace_dead=True), care=care)
    outcome = simulate(deployment, trace, schedule=Schedule(faults=dead), settings=how)
    assert outcome.internal_completeness == pytest.approx(1.0)
    assert (outcome.ledger.processed.cumsum(axis=0) <= outcome.ledger.worked + 1e-6).all()


def test_the_latency_of_a_recovery_counts_from_its_own_failure():
    faults = (*crash("pe1.1", at_s=5).faults, *crash("pe1.0", at_s=45).faults)  # the first finds an idle replica
    how = SimulationSettings(
        drain_s=30, control=Control(replace_dead=True), care=FailureHandling(scheme="checkpoint", detect_s=1.0)
    )
    deployment = pipeline(replicated=False)
    outcome = simulate(
        deployment, steady_rates(deployment.descriptor, "low", seconds=60), schedule=Schedule(faults=faults), settings=how
    )
    (back,) = outcome.returns()
    assert (back.pe, back.failed_s, back.detected_s) == ("pe1", 45, 46)
    assert back.latency_s < 5


def test_a_replica_that_stalls_is_noticed_and_goes_on_is_back():
    stall = ScheduledFault(at_s=5, kind="stall", what="pe", target=("pe1.1",), for_s=3.0)
    how = SimulationSettings(
        drain_s=30, control=Control(replace_dead=True), care=FailureHandling(scheme="checkpoint", detect_s=1.0)
    )
    deployment = pipeline(replicated=False)
    schedule = Schedule(faults=(stall, *crash("pe1.0", at_s=45).faults))
    outcome = simulate(deployment, steady_rates(deployment.descriptor, "low", seconds=60), schedule=schedule, settings=how)
    told = [(event.at_s, event.kind) for event in outcome.history() if event.about["replica"] == 1]
    assert told[:2] == [(6.0, "detected"), (8.0, "restored")]
    assert [back.detected_s for back in outcome.returns()] == [46]


def test_nothing_is_detected_while_the_orchestrator_is_dead():
    faults = (
        ScheduledFault(at_s=10, kind="crash", what="orchestrator", back_after_s=20),
        ScheduledFault(at_s=15, kind="crash", what="pe", target=("pe1.0",)),
    )
    outcome = run(pipeline(replicated=True), Schedule(faults=faults))
    (taken,) = outcome.returns()
    assert taken.detected_s == pytest.approx(30)


def test_a_stalled_replica_goes_on_where_it_was():
    stall = ScheduledFault(at_s=20, kind="stall", what="pe", target=("pe1",), for_s=1.0)
    outcome = run(pipeline(replicated=False), Schedule(faults=(stall,)))
    assert outcome.output("sink").sum() == pytest.approx(4 * 60)


def test_a_stall_that_is_renewed_ends_with_the_last_word():
    faults = tuple(ScheduledFault(at_s=at, kind="stall", what="pe", target=("pe1",), for_s=5) for at in (20, 24))
    outcome = run(pipeline(replicated=False), Schedule(faults=faults), scheme="checkpoint")
    made = outcome.output("sink")
    assert made[21:29].sum() == 0
    assert made[29:].sum() == pytest.approx(4 * 60 - made[:21].sum())


def test_a_pe_that_was_slow_and_is_started_again_is_slow_no_more():
    slow = ScheduledFault(at_s=10, kind="slow", what="pe", target=("pe1",), for_s=40, by_s=9.0)
    killed = crash("pe1", at_s=20).faults
    while_dead = ScheduledFault(at_s=21, kind="slow", what="pe", target=("pe1",), for_s=40, by_s=9.0)
    outcome = run(pipeline(replicated=False), Schedule(faults=(slow, *killed, while_dead)), scheme="checkpoint")
    assert outcome.output("sink")[12:20].mean() == pytest.approx(1, abs=0.1)
    assert outcome.output("sink")[45:50].mean() == pytest.approx(4)


def test_an_orchestrator_that_was_killed_is_started_again_in_any_case():
    faults = (
        ScheduledFault(at_s=10, kind="crash", what="orchestrator"),
        ScheduledFault(at_s=20, kind="crash", what="pe", target=("pe1.0",)),
    )
    (taken,) = run(pipeline(replicated=True), Schedule(faults=faults), detect_s=1.0).returns()
    assert taken.detected_s == pytest.approx(21)


def test_the_faults_that_came_about_are_told_and_whom_they_found_dead():
    faults = (
        *crash("pe1.0", at_s=10).faults,
        ScheduledFault(at_s=12, kind="crash", what="pe", target=("pe1.0", "pe2")),
        ScheduledFault(at_s=20, kind="stall", what="orchestrator", for_s=1),
        *crash("pe2", at_s=1000).faults,
    )
    told = run(pipeline(replicated=True), Schedule(faults=faults)).struck()
    assert [(each.at_s, each.about["what"], each.about["dead"]) for each in told] == [
        (10, "crash pe pe1.0", []),
        (12, "crash pe pe1.0 pe2", ["pe1.0"]),
        (20, "stall orchestrator", []),
    ]


def test_a_slow_pe_falls_behind():
    slow = ScheduledFault(at_s=0, kind="slow", what="pe", target=("pe1",), for_s=60, by_s=9.0)
    outcome = run(pipeline(replicated=False), Schedule(faults=(slow,)))
    assert outcome.dropped > 0  # a tenth of a core does one tuple a second, and four come


def test_a_node_whose_cpu_others_take_falls_behind():
    hog = ScheduledFault(at_s=10, kind="hog", what="node", target=("node1",), for_s=20)
    deployment = pipeline(replicated=False)
    descriptor = deployment.descriptor
    tight = descriptor.model_copy(update={"nodes": {h: x.model_copy(update={"cores": 1.0}) for h, x in descriptor.nodes.items()}})
    lone = Deployment.planned(tight, Instance.of(tight), deployment.active)
    outcome = run(lone, Schedule(faults=(hog,)), scheme="checkpoint")
    # Two PEs want 0.4 of a core each; beside two processes that want all of it each gets a quarter.
    assert outcome.ledger.cpu[15, 0] == pytest.approx(0.5)
    assert outcome.ledger.queued[29].sum() > 10
    assert outcome.output("sink").sum() == pytest.approx(4 * 60)


def test_without_spares_a_lost_node_is_back_when_the_fault_says_so_and_its_second_place_goes_on_meanwhile():
    lost = crash("node1", what="node", back_after_s=30)
    deployment = pipeline(replicated=False)
    trace = steady_rates(deployment.descriptor, "low", seconds=60)
    care = FailureHandling(scheme="checkpoint", detect_s=1.0, restart_s=2.0, spares=False)

    def output(schedule: Schedule, **control: object) -> np.ndarray:
        how = SimulationSettings(drain_s=30, care=care, control=Control(**control))
        outcome = simulate(deployment, trace, schedule=schedule, settings=how)
        assert outcome.output("sink").sum() == pytest.approx(4 * 60)  # inputs are kept
        return outcome.output("sink")

    waits, goes_on = output(lost), output(lost, replace_dead=True, replace_s=4.0)
    assert waits[22:49].sum() == 0
    assert goes_on[22:24].sum() == 0
    assert goes_on[27:49].mean() > 3.99
    # One PE that dies is started again on the node that is there.
    assert output(crash("pe1"))[27:49].mean() > 3.99


def test_a_replica_with_two_reasons_to_be_gone_is_back_when_neither_is_left():
    deployment = pipeline(replicated=False)
    both = (*crash("node1", what="node", at_s=10, back_after_s=30).faults, *crash("pe1", at_s=20, back_after_s=5).faults)
    outcome = run(deployment, Schedule(faults=both))
    wanted = {"pe": "pe1", "replica": 0}
    (restored,) = [event.at_s for event in outcome.history() if event.kind == "restored" and wanted.items() <= event.about.items()]
    assert restored == 40


def test_a_pe_that_crashes_while_its_node_is_away_or_just_before_is_back_with_its_node():
    node = crash("node1", what="node", at_s=12, back_after_s=20).faults
    for at_s in (10, 20):
        both = Schedule(faults=(*node, *crash("pe1.0", at_s=at_s).faults))
        outcome = run(pipeline(replicated=False), both, scheme="checkpoint", spares=False, detect_s=5.0)
        wanted = {"pe": "pe1", "replica": 0}
        restored = [e.at_s for e in outcome.history() if e.kind == "restored" and wanted.items() <= e.about.items()]
        assert restored == [32]
        assert outcome.output("sink").sum() == pytest.approx(4 * 60)


def test_a_replica_that_stands_in_stays_through_a_new_configuration_and_goes_when_the_dead_is_back():
    descriptor = pipeline(replicated=False).descriptor
    instance = Instance.of(descriptor)
    lone = static_replication(instance)
    lone[:, :, 1] = False
    deployment = Deployment.planned(descriptor, instance, lone)
    low, high = (steady_rates(descriptor, name, seconds=30).rates for name in ("low", "high"))
    trace = RateTrace(("source",), np.concatenate([low, high, low]))
    how = SimulationSettings(
        drain_s=10, control=Control(replace_dead=True), care=FailureHandling(scheme="checkpoint", spares=False)
    )
    outcome = simulate(deployment, trace, schedule=crash("node1", what="node", back_after_s=50), settings=how)
    assert outcome.internal_completeness == pytest.approx(1.0)
    on_second = outcome.ledger.cpu[:, 1]
    assert on_second[25:69].min() > 0
    assert on_second[75:].max() == 0


def test_what_waits_for_a_pe_counts_once_whoever_else_has_it_too():
    stall = Schedule(faults=(ScheduledFault(at_s=20, kind="stall", what="pe", target=("pe1",), for_s=1.0),))
    alone, twice = (run(pipeline(replicated=replicated), stall, detect_s=5.0).ledger.waited.sum() for replicated in (False, True))
    assert alone == pytest.approx(twice)
    assert 4 * 0.5 <= alone * 0.05 < 4 * 0.7  # four tuples, half a second each and until they are done


def test_a_rack_falls_as_one():
    deployment = pipeline(replicated=False)
    nodes = {h: x.model_copy(update={"rack": "r1"}) for h, x in deployment.descriptor.nodes.items()}
    descriptor = deployment.descriptor.model_copy(update={"nodes": nodes})
    instance = Instance.of(descriptor)
    racked = Deployment.planned(descriptor, instance, deployment.active)
    outcome = run(racked, crash("rack=r1", what="node"))
    assert outcome.output("sink").sum() == pytest.approx(4 * 20, abs=0.5)


def test_a_schedule_that_strikes_nobody_is_told_whole():
    faults = (
        ScheduledFault(at_s=1, kind="crash", what="pe", target=("vwap",)),
        ScheduledFault(at_s=1, kind="crash", what="node", target=("rack=r9",)),
        ScheduledFault(at_s=1, kind="crash", what="pe", target=("source/0", "sink.1", "pe1/3", "pe1.2")),
        ScheduledFault(at_s=1, kind="cut", what="node", target=("node1",), for_s=3),
        ScheduledFault(at_s=1, kind="fill", what="disk", for_s=3),
    )
    with pytest.raises(DocumentError) as error:
        run(pipeline(replicated=False), Schedule(faults=faults))
    text = str(error.value)
    assert "strikes 'vwap', which is no PE of the descriptor; there are: pe1, pe2" in text
    assert "strikes 'rack=r9', which is no node or rack of the descriptor; there are: node1, node2" in text
    assert "strikes 'source/0'; sources and sinks of a simulation do not fail: leave it out" in text
    assert "strikes 'sink.1'; sources and sinks of a simulation do not fail: leave it out" in text
    assert "strikes 'pe1/3', which is no PE of the descriptor" in text
    assert "strikes 'pe1.2', which is no PE of the descriptor" in text
    assert "is a cut of a node; a simulation has no messages: give a crash, stall, slow or hog" in text
    assert "is a fill of a disk; a simulation has no disks: give a crash, stall, slow or hog" in text


def test_a_target_is_a_pe_its_task_or_a_replica_whatever_the_pe_is_called():
    descriptor = figure_6(1000.0)
    places = deployed(descriptor, descriptor.pes).places
    first = 2 * places.pes.index("O1/3")
    assert places.of_pe("O1/3") == [first, first + 1]
    assert places.of_pe("O1/3.1") == places.of_pe("O1/3/0.1") == [first + 1]
    assert places.of_pe("O1") is None


def test_a_strategy_of_another_application_is_told_whole():
    descriptor = figure_1()
    instance = Instance.of(descriptor)
    strategy = Strategy.of(instance, static_replication(instance))
    with pytest.raises(DocumentError, match="strategy of 'shop': is not for application 'figure-1' of the descriptor; plan it"):
        Deployment.of(descriptor, strategy.model_copy(update={"application": "shop"}))
    other = strategy.model_copy(update={"placement": {"pe1": ("node1", "elsewhere"), "vwap": ("node1", "node2")}})
    with pytest.raises(DocumentError) as error:
        Deployment.of(descriptor, other)
    assert "says nothing of PE 'pe2' of the descriptor" in str(error.value)
    assert "speaks of PE 'vwap', which the descriptor does not have" in str(error.value)
    assert "places replicas on node 'elsewhere', which the descriptor does not have" in str(error.value)


def test_settings_that_cannot_be_are_told_at_once():
    with pytest.raises(CompoundError, match=r"(?s)step_s wants a number above 0, got 0.*care.detect_s wants a number of"):
        SimulationSettings(step_s=0, care=FailureHandling(detect_s=-1))
    with pytest.raises(CompoundError, match=r"(?s)step_s wants a finite number, got inf.*care.detect_s wants a finite number"):
        SimulationSettings(step_s=float("inf"), queue_s=float("inf"), care=FailureHandling(detect_s=float("inf")))
    with pytest.raises(CompoundError, match=r"epoch_s wants whole steps of 0.05 s, got 0.12; give another step_s"):
        SimulationSettings(epoch_s=0.12, care=FailureHandling(scheme="checkpoint"))
    assert SimulationSettings(epoch_s=0.3, step_s=0.1, care=FailureHandling(scheme="checkpoint")).steps(0.3) == 3


def test_a_trace_shorter_than_a_step_is_named():
    deployment = pipeline(replicated=False)
    with pytest.raises(HoldfastError, match=r"a trace of 10 s and 0 s after it have 0 steps of 100 s, wanted 1 to 50,000,000"):
        simulate(deployment, steady_rates(deployment.descriptor, "low", seconds=10), settings=SimulationSettings(step_s=100))


def test_a_trace_shorter_than_an_epoch_is_named():
    deployment = pipeline(replicated=False)
    how = SimulationSettings(epoch_s=90, drain_s=5, care=FailureHandling(scheme="checkpoint"))
    with pytest.raises(
        HoldfastError, match=r"a trace of 60 s and 5 s after it have no whole epoch of 90 s; give a shorter --epoch"
    ):
        simulate(deployment, steady_rates(deployment.descriptor, "low"), settings=how)


def test_times_that_no_run_lasts_are_never():
    late = ScheduledFault(at_s=1e300, kind="crash", what="pe", target=("pe1",))
    outcome = run(pipeline(replicated=True), Schedule(faults=(*crash("pe1.0").faults, late)), detect_s=1e300)
    assert (outcome.returns(), len(outcome.struck())) == ([], 1)


def test_an_interval_is_of_whole_steps_and_says_how_long_it_is():
    deployment = pipeline(replicated=False)
    for step_s, interval_s in ((0.3, 0.9), (2.0, 2.0), (0.05, 1.0)):
        outcome = simulate(deployment, steady_rates(deployment.descriptor, "low"), settings=SimulationSettings(step_s=step_s))
        assert outcome.interval_s == pytest.approx(interval_s)
        assert outcome.output_tuples[20] / outcome.interval_s == pytest.approx(4)


def test_rate_traces_are_read_and_their_mistakes_named(tmp_path):
    descriptor = figure_1()
    path = tmp_path / "rates.csv"
    path.write_text("time_s,source\n0,4\n2,8\n4,4\n")
    trace = read_rates(path, descriptor)
    assert (trace.interval_s, trace.seconds, trace.rates[1, 0]) == (2.0, 6.0, 8.0)
    path.write_text("\ufefftime_s, source\n0, 4\n1, 8\n", encoding="utf-8")  # as a spreadsheet writes it
    assert read_rates(path, descriptor).rates.ravel().tolist() == [4.0, 8.0]
    for text, said in (
        ("time_s,market\n0,4\n", "missing: source; its first line has: time_s, market"),
        ("time_s;source\n0;4\n", "separated by commas; missing: time_s, source; its first line has: time_s;source"),
        ("time_s,source,source\n0,4,5\n", "there twice: source"),
        ("time_s,source\n", "has 0 rows below its header, wanted 1 to 10,000,000"),
        ("", "its first line has: nothing"),
        ("time_s,source\n0,4\n1,4,5\n", "row 2 has more than the 2 columns"),
        ("time_s,source\n0,many\n1\n", r"numbers from 0 to 1e\+12; source in row 1 is 'many', source in row 2 is ''"),
        ("time_s,source\n" + "0,x\n" * 8, "source in row 5 is 'x' and 3 more"),
        ("time_s,source\n0,4\n1,4\n5,4\n", "times that ascend evenly"),
        ("time_s,source\n0,-4\n", "source in row 1 is '-4'"),
        ("time_s,source\n0,nan\n", "source in row 1 is 'nan'"),
        ("time_s,source\n0,1e300\n", "source in row 1 is '1e300'"),
        ("time_s,source\n0,4\ninf,4\n", "time_s in row 2 is 'inf'"),
    ):
        path.write_text(text)
        with pytest.raises(TraceError, match=said):
            read_rates(path, descriptor)
    with pytest.raises(TraceError, match="there is no rate trace"):
        read_rates(tmp_path / "none.csv", descriptor)
    with pytest.raises(TraceError, match="has no configuration 'medium'; it has: high, low"):
        steady_rates(descriptor, "medium")


def test_a_scheme_for_a_pe_that_is_not_there_is_named():
    with pytest.raises(HoldfastError, match="a scheme is given for PE 'vwap', which the descriptor does not have"):
        run(pipeline(replicated=False), Schedule(), schemes={"vwap": "checkpoint"})
