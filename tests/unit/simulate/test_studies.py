"""The studies that are made of simulations: what they draw, and that their worst cases are worst."""

import gzip
import json

import numpy as np
import pytest
from click.testing import CliRunner

from holdfast.cli.main import root
from holdfast.errors import TraceError
from holdfast.plan.laar import Instance, generate, greedy, host_load, static_replication
from holdfast.simulate import Deployment, Settings, simulate, steady_rates
from holdfast.simulate.internet import Scale, build, failures, generated_profile, read_profile
from holdfast.simulate.internet_plans import VARIANTS, strategy
from holdfast.simulate.laar_findings import ratios
from holdfast.simulate.laar_study import RANGES, pessimistic
from holdfast.simulate.laar_study import VARIANTS as LAAR_VARIANTS
from holdfast.simulate.ppa_findings import findings
from holdfast.simulate.ppa_study import HALF, figure_6, plans, techniques
from holdfast.simulate.ppa_study import failed as failed_run

SMALL = Scale(applications=6, racks=3, hosts=4)


@pytest.fixture(scope="module")
def world():
    return build(SMALL, generated_profile(np.random.default_rng(1)))


def test_the_pessimistic_survivor_is_the_replica_that_is_idle_most():
    descriptor = generate(np.random.default_rng([1, 0]), ranges=RANGES)
    instance = Instance.of(descriptor)
    active = greedy(instance)
    deployment = Deployment.planned(descriptor, instance, active)
    (fault,) = pessimistic(deployment, instance).faults
    for i, pe in enumerate(deployment.pes):
        (dead,) = [name for name in fault.target if name.rsplit(".", 1)[0] == pe]
        survivor = 1 - int(dead[-1])
        assert active[:, i, survivor].sum() <= active[:, i, 1 - survivor].sum()


def test_a_multiple_of_less_than_a_tuple_is_none():
    def record(nr: float, other: float) -> dict[str, object]:
        runs = {f"{variant}/best": {"missed": other} for variant in LAAR_VARIANTS}
        return {"runs": runs | {"NR/best": {"missed": nr}}}

    records = [record(0.0, 50.0), record(0.02, 50.0), record(2.0, 50.0)]
    assert ratios(records, "missed", "best", least=1.0)["SR"] == [25.0]
    assert ratios(records, "missed", "best")["SR"] == [2500.0, 25.0]


def test_static_replication_survives_the_pessimistic_failures_where_the_load_is_low():
    descriptor = generate(np.random.default_rng([1, 1]), ranges=RANGES)
    instance = Instance.of(descriptor)
    deployment = Deployment.planned(descriptor, instance, static_replication(instance))
    how = Settings(drain_s=5)
    outcome = simulate(deployment, steady_rates(descriptor, "low"), schedule=pessimistic(deployment, instance), settings=how)
    assert outcome.internal_completeness > 0.97  # but for the second until the dead are noticed


def test_every_task_of_figure_6_has_the_same_load_and_comes_back_from_a_correlated_failure():
    descriptor = figure_6(1000.0)
    assert len(descriptor.pes) == 15
    assert set(HALF) < set(descriptor.pes)
    tasks = descriptor.topological_order
    half = plans(tasks)[1]
    outcome = failed_run(half, rate=1000.0, window_s=10.0, nodes=[f"node {task}" for task in tasks], at_s=90.0)
    back = {found.pe: found.by for found in outcome.returns()}
    assert back == {task: "takeover" if task in HALF else "checkpoint" for task in tasks}
    assert outcome.internal_completeness > 0.99


def test_the_findings_of_ppa_are_computed_and_can_fail():
    names = [technique.name for technique in techniques(("O1/0",))]
    rows = [
        {"technique": name, "rate": rate, "window_s": window_s, "single_s": 1.0, "correlated_s": 1.0}
        for name in names
        for rate in (1000.0, 2000.0)
        for window_s in (10.0, 30.0)
    ]
    flat = {
        "recovery": rows,
        "checkpoint_cost": [{"checkpoint_s": s, "share": 0.1} for s in (1.0, 5.0, 15.0, 30.0)],
        "partial": [
            {"plan": plan, "rate": rate, "latency_s": 1.0}
            for plan in ("PPA-1.0", "PPA-0.5", "PPA-0.5-active", "PPA-0")
            for rate in (1000.0, 2000.0)
        ],
    }
    held = {finding.name for finding in findings(flat) if finding.holds}
    assert "Figure 7: active replicas recover fastest" not in held
    assert "Figure 10: PPA-1.0 is back before PPA-0.5, and that before PPA-0" not in held


def test_strategies_of_a_data_center_fit_its_hosts_and_keep_replicas_in_different_racks(world):
    assert (world.host_of[:, 0] // SMALL.hosts != world.host_of[:, 1] // SMALL.hosts).all()
    made = {variant: strategy(world, variant) for variant in VARIANTS}
    instance = Instance.of(world.descriptor, placement=dict(zip(world.descriptor.topological_order, _hosts(world), strict=True)))
    for name in ("NR", "LAAR", "combined"):
        assert made[name].any(axis=2).all()
        assert (host_load(instance, made[name]) <= 16.0).all(), name
    assert host_load(instance, made["SR"])[-1].sum() == pytest.approx(SMALL.overload * 16.0 * SMALL.machines)
    replicated = made["PPA"][0].all(axis=1)
    assert 0 < replicated.sum() <= 0.5 * SMALL.applications * SMALL.pes
    # What is replicated makes output by itself: whatever a replicated PE reads is replicated too, in part at least.
    order = world.descriptor.topological_order
    chosen = {pe for pe, twice in zip(order, replicated, strict=True) if twice}
    for pe in chosen:
        upstream = [up for up in world.descriptor.pes[pe].inputs if up in world.descriptor.pes]
        assert not upstream or chosen & set(upstream), pe


def _hosts(world):
    names = list(world.descriptor.hosts)
    return [tuple(names[h] for h in hosts) for hosts in world.host_of]


def test_a_rack_falls_in_the_busiest_hour(world):
    load = world.trace.rates.sum(axis=1)
    fault = failures(world, "rack").faults[-1]
    assert fault.target[0].startswith("rack=rack")
    assert load[int(fault.at_s // 60)] > np.quantile(load, 0.8)
    assert len(failures(world, "pdu").faults[-1].target) >= 1


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("1998-06-30 25:00,7", "wants a period, as 1998-06-30 21:05, and a count in each row: hour must be in"),
        ("1998-06-30 21:05,many", "and a count in each row: could not convert string to float: 'many'"),
        ("1998-06-30 21:05", "and a count in each row: float"),
        ("1998-06-30 21:05,-1", "wants counts of at least 0, got -1 at 1998-06-30 21:05"),
        ("1998-06-30 21:05,nan", "wants counts of at least 0, got nan"),
    ],
)
def test_a_row_that_is_none_of_a_profile_is_named(tmp_path, rows, said):
    path = tmp_path / "web.csv"
    path.write_text(f"period,count\n{rows}\n")
    with pytest.raises(TraceError, match=said):
        read_profile(path, "1998-06-30")


def test_a_day_that_is_no_date_and_a_file_cut_short_are_named(tmp_path):
    path = tmp_path / "web.csv.gz"
    path.write_bytes(gzip.compress(b"period,count\n1998-06-30 21:05,7\n")[:-9])
    with pytest.raises(TraceError, match="a profile's day is a date, as 1998-06-30, got 'June'"):
        read_profile(path, "June")
    with pytest.raises(TraceError, match="cannot be read"):
        read_profile(path, "1998-06-30")


def test_a_profile_without_the_day_is_named(tmp_path):
    path = tmp_path / "requests.csv"
    path.write_text("period,count\n1998-06-30 00:01:00,7\n")
    assert read_profile(path, "1998-06-30")[1] == 7
    with pytest.raises(TraceError, match="has no requests on 1998-07-01; give a day that it covers"):
        read_profile(path, "1998-07-01")
    with pytest.raises(TraceError, match="cannot be read"):
        read_profile(tmp_path / "none.csv", "1998-06-30")


def test_a_data_center_is_reported_and_the_plans_that_replicate_lose_less(tmp_path):
    words = ["reproduce", "internet", "--applications", "8", "--racks", "2", "--workers", "1", "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(root, words)
    assert result.exit_code == 0, result.output
    days = json.loads(result.stdout)["days"]
    for kind in ("rack", "pdu"):
        lost = {variant: days[f"{kind}/{variant}"]["lost"] for variant in ("NR", "LAAR", "PPA", "combined")}
        assert min(lost.values()) > -1e-6
        assert lost["LAAR"] < lost["NR"]
        assert max(lost["PPA"], lost["combined"]) < 0.1 * lost["NR"]
    assert (tmp_path / "cost-and-loss.svg").read_text().count("var(--") == 0
