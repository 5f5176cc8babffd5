"""The studies that are made of simulations: what they draw, and that their worst cases are worst."""

import gzip
import json

import numpy as np
import pytest
from click.testing import CliRunner

from holdfast.cli.main import root
from holdfast.errors import TraceError
from holdfast.planning.laar import Instance, generate, greedy, node_load, static_replication
from holdfast.simulate import Deployment, SimulationSettings, simulate, steady_rates
from holdfast_papers.internet.data_center import Scale, build, failures, generated_profile, read_profile
from holdfast_papers.internet.day import day_key, yearly
from holdfast_papers.internet.findings import findings as internet_findings
from holdfast_papers.internet.plans import VARIANTS, strategy
from holdfast_papers.laar.variants_findings import findings as laar_findings
from holdfast_papers.laar.variants_findings import ratios
from holdfast_papers.laar.variants_study import RANGES, pessimistic
from holdfast_papers.laar.variants_study import VARIANTS as LAAR_VARIANTS
from holdfast_papers.ppa.recovery_simulation import HALF, figure_6, plans, techniques
from holdfast_papers.ppa.recovery_simulation import failed as failed_run
from holdfast_papers.ppa.recovery_simulation_findings import findings

SMALL = Scale(applications=6, racks=3, nodes=4)


@pytest.fixture(scope="module")
def world():
    return build(SMALL, generated_profile(np.random.default_rng(1)))


def test_pessimistic_survivor_is_the_most_idle_replica():
    descriptor = generate(np.random.default_rng([1, 0]), ranges=RANGES)
    instance = Instance.of(descriptor)
    active = greedy(instance)
    deployment = Deployment.planned(descriptor, instance, active)
    (fault,) = pessimistic(deployment, instance).faults
    for i, pe in enumerate(deployment.pes):
        (dead,) = [name for name in fault.target if name.rsplit(".", 1)[0] == pe]
        survivor = 1 - int(dead[-1])
        assert active[:, i, survivor].sum() <= active[:, i, 1 - survivor].sum()


def test_ratio_to_less_than_one_tuple_is_left_out():
    def record(nr: float, other: float) -> dict[str, object]:
        runs = {f"{variant}/best": {"missed": other} for variant in LAAR_VARIANTS}
        return {"runs": runs | {"NR/best": {"missed": nr}}}

    records = [record(0.0, 50.0), record(0.02, 50.0), record(2.0, 50.0)]
    assert ratios(records, "missed", "best", least=1.0)["SR"] == [25.0]
    assert ratios(records, "missed", "best")["SR"] == [2500.0, 25.0]


def test_static_replication_survives_pessimistic_failures_at_low_load():
    descriptor = generate(np.random.default_rng([1, 1]), ranges=RANGES)
    instance = Instance.of(descriptor)
    deployment = Deployment.planned(descriptor, instance, static_replication(instance))
    how = SimulationSettings(drain_s=5)
    outcome = simulate(deployment, steady_rates(descriptor, "low"), schedule=pessimistic(deployment, instance), settings=how)
    assert outcome.internal_completeness > 0.97  # but for the second until the dead are noticed


def test_every_task_of_figure_6_recovers_from_a_correlated_failure():
    descriptor = figure_6(1000.0)
    assert len(descriptor.pes) == 15
    assert set(HALF) < set(descriptor.pes)
    tasks = descriptor.topological_order
    half = plans(tasks)[1]
    outcome = failed_run(half, rate=1000.0, window_s=10.0, nodes=[f"node {task}" for task in tasks], at_s=90.0)
    back = {found.pe: found.by for found in outcome.recoveries()}
    assert back == {task: "takeover" if task in HALF else "checkpoint" for task in tasks}
    assert outcome.internal_completeness > 0.99


def laar_record(low: float, high: float) -> dict[str, object]:
    """Figures of an application as section 5.3 describes them; where they vary, they are `low` or `high` of their range."""
    best = {
        "NR": (100.0, 1.0, 10.0),
        "SR": (185.0, 30.0, 6.7),
        "GRD": (175.0, 3.0, 6.2 + 3.6 * high),
        "L.5": (140.0, 2.0, 9.6 + 0.1 * high),
        "L.6": (150.0, 2.0, 9.6 + 0.1 * high),
        "L.7": (160.0, 2.0, 9.6 + 0.1 * high),
    }
    worst = {"NR": 0.0, "SR": 0.95, "GRD": 0.35 + 0.6 * high, "L.5": 0.5, "L.6": 0.6, "L.7": 0.7}
    crash = {"NR": 0.95, "SR": 0.95, "GRD": 0.8 + 0.19 * low, "L.5": 0.96, "L.6": 0.97, "L.7": 0.98}
    runs = {}
    for v in LAAR_VARIANTS:
        names = ("cpu_s", "missed", "peak_rate")
        runs[f"{v}/best"] = dict(zip(names, best[v], strict=True)) | {"processed": 1.0}
        for scenario, share in (("worst", worst[v]), ("worst, even", worst[v]), ("crash", crash[v])):
            runs[f"{v}/{scenario}"] = {"processed": share, "ic": share, "high_s": 100.0}
    return {"runs": runs}


def test_findings_of_laar_follow_the_figures():
    records = [laar_record(0.0, 1.0), laar_record(1.0, 0.0)]
    assert [finding.name for finding in laar_findings(records) if not finding.holds] == []
    for record in records:
        for figures in record["runs"].values():
            figures |= dict.fromkeys(figures, 1.0)
    assert [finding.name for finding in laar_findings(records) if finding.holds] == [
        "LAAR's output at the peak is within 9 % of NR's",
        "LAAR keeps its IC promise in the worst case",
        "it does where input rates have no glitches",
        "with one host crashed, LAAR's IC is much higher than promised",
        "with one host crashed, L.5 is like NR",
    ]


RATES, WINDOWS_S = (1000.0, 2000.0), (10.0, 30.0)
PLANS = ("PPA-1.0", "PPA-0.5", "PPA-0.5-active", "PPA-0")


def as_the_paper_says() -> dict[str, list[dict[str, object]]]:
    """Figures 7 to 10 as section VI-A describes them."""

    def single(name: str, rate: float, window_s: float, operator: int) -> float:
        if name.startswith("active"):
            return 0.5
        rest = float(name.split()[1]) if name.startswith("checkpoint") else window_s * (1 + operator)
        return 1 + rate / 1000 * (rest + 0.01 * window_s)

    def correlated(name: str, rate: float, window_s: float) -> float:
        if name.startswith("active"):
            return 1 + 0.01 * float(name.split()[2])
        return 3 + rate / 1000 * (2 * float(name.split()[1]) if name.startswith("checkpoint") else window_s)

    rows: list[dict[str, object]] = []
    for name in (technique.name for technique in techniques(("O1/0",))):
        for rate in RATES:
            for window_s in WINDOWS_S:
                at = {f"O{n + 1}": single(name, rate, window_s, n) for n in range(4)}
                about = {"technique": name, "rate": rate, "window_s": window_s, "by_operator_s": at}
                rows.append(about | {"single_s": np.mean(list(at.values())), "correlated_s": correlated(name, rate, window_s)})
    latencies = dict(zip(PLANS, (1.2, 9.0, 1.1, 9.5), strict=True))
    return {
        "recovery": rows,
        "checkpoint_cost": [{"rate": rate, "checkpoint_s": s, "share": 3 / s} for rate in RATES for s in (1.0, 5.0, 15.0, 30.0)],
        "partial": [{"plan": plan, "rate": rate, "latency_s": latencies[plan]} for plan in PLANS for rate in RATES],
    }


def test_findings_of_ppa_follow_the_figures():
    figures = as_the_paper_says()
    assert [finding.name for finding in findings(figures) if not finding.holds] == []
    for row in figures["recovery"]:
        row |= {"single_s": 1.0, "correlated_s": 1.0, "by_operator_s": dict.fromkeys(("O1", "O2", "O3", "O4"), 1.0)}
    for row in (*figures["checkpoint_cost"], *figures["partial"]):
        row |= {"share": 0.1} if "share" in row else {"latency_s": 1.0}
    held = [finding.name for finding in findings(figures) if finding.holds]
    assert held == ["Figure 10: PPA-0.5's replicated tasks are back no later than PPA-1.0's"]  # they are not


def test_strategies_fit_the_nodes_and_use_different_racks(world):
    assert (world.node_of[:, 0] // SMALL.nodes != world.node_of[:, 1] // SMALL.nodes).all()
    made = {variant: strategy(world, variant) for variant in VARIANTS}
    instance = Instance.of(world.descriptor, placement=dict(zip(world.descriptor.topological_order, _nodes(world), strict=True)))
    for name in ("NR", "LAAR", "combined"):
        assert made[name].any(axis=2).all()
        assert (node_load(instance, made[name]) <= 16.0).all(), name
    assert node_load(instance, made["SR"])[-1].sum() == pytest.approx(SMALL.overload * 16.0 * SMALL.machines)
    replicated = made["PPA"][0].all(axis=1)
    assert 0 < replicated.sum() <= 0.5 * SMALL.applications * SMALL.pes
    # What is replicated makes output by itself: whatever a replicated PE reads is replicated too, in part at least.
    order = world.descriptor.topological_order
    chosen = {pe for pe, twice in zip(order, replicated, strict=True) if twice}
    for pe in chosen:
        upstream = [up for up in world.descriptor.pes[pe].inputs if up in world.descriptor.pes]
        assert not upstream or chosen & set(upstream), pe


def _nodes(world):
    names = list(world.descriptor.nodes)
    return [tuple(names[h] for h in nodes) for nodes in world.node_of]


@pytest.mark.parametrize(("applications", "racks", "most"), [(4, 2, 24.0), (20, 4, 8.0)])
def test_rates_are_limited_by_the_heaviest_pe(applications, racks, most):
    scale = Scale(applications=applications, racks=racks)
    made = build(scale, generated_profile(np.random.default_rng(1)))
    assert made.work[-1].sum() == pytest.approx(scale.overload * 16.0 * scale.machines / 2)
    assert made.work[-1].max() < most * (1 + 1e-9)
    assert 1 < made.trace.rates.max(axis=0).min() < made.trace.rates.max() < 2000


def test_rack_fails_in_the_busiest_hour(world):
    load = world.trace.rates.sum(axis=1)
    fault = failures(world, "rack").faults[-1]
    assert fault.target[0].startswith("rack=rack")
    assert load[int(fault.at_s // 60)] > np.quantile(load, 0.8)
    assert len(failures(world, "pdu").faults[-1].target) >= 1
    assert not failures(world, "calm").faults


def test_failures_end_before_the_day_ends():
    for busiest in (30, 700, 1379):  # of the profile
        profile = np.ones(1440)
        profile[busiest : busiest + 60] = 5.0
        shifted = build(SMALL, profile)
        for day in ("rack", "pdu"):
            fault = failures(shifted, day).faults[-1]
            assert shifted.trace.rates[int(fault.at_s // 60), 0] == shifted.trace.rates[:, 0].max()
            assert fault.at_s + fault.back_after_s < 20 * 3600
        assert (shifted.begins + 720) % 1440 == busiest


def test_yearly_losses_separate_failures_from_overload():
    lost = {"calm": 0.01, "rack": 0.03, "pdu": 0.06}
    records = {day_key(day, v): {"lost": share, "cpu_s": 100.0} for day, share in lost.items() for v in VARIANTS}
    year = yearly(records, Scale(racks=45, nodes=40))["NR"]  # 1,800 machines: 20 racks and a power unit a year
    assert year == pytest.approx({"cpu_s": 100.0, "calm_days": 3.65, "rack_days": 20 * 0.02, "pdu_days": 0.05})


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
def test_invalid_profile_row_is_reported(tmp_path, rows, said):
    path = tmp_path / "web.csv"
    path.write_text(f"period,count\n{rows}\n")
    with pytest.raises(TraceError, match=said):
        read_profile(path, "1998-06-30")


def test_invalid_day_and_truncated_file_are_reported(tmp_path):
    path = tmp_path / "web.csv.gz"
    path.write_bytes(gzip.compress(b"period,count\n1998-06-30 21:05,7\n")[:-9])
    with pytest.raises(TraceError, match="a profile's day is a date, as 1998-06-30, got 'June'"):
        read_profile(path, "June")
    with pytest.raises(TraceError, match="cannot be read"):
        read_profile(path, "1998-06-30")


def test_profile_without_the_day_is_reported(tmp_path):
    path = tmp_path / "requests.csv"
    path.write_text("period,count\n1998-06-30 00:01:00,7\n")
    assert read_profile(path, "1998-06-30")[1] == 7
    with pytest.raises(TraceError, match="has no requests on 1998-07-01; give a day that it covers"):
        read_profile(path, "1998-07-01")
    with pytest.raises(TraceError, match="cannot be read"):
        read_profile(tmp_path / "none.csv", "1998-06-30")


def test_report_shows_that_replicated_plans_lose_less(tmp_path):
    words = ["reproduce", "internet", "--applications", "4", "--racks", "2", "--workers", "1", "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(root, words)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    days = document["days"]
    assert days["calm/NR"]["lost"] < 0.02 * days["rack/NR"]["lost"]  # so few PEs are too heavy for a node in the fullest minute
    assert days["calm/SR"]["lost"] > days["calm/NR"]["lost"]  # every replica is active when the nodes cannot carry them
    assert days["calm/NR"]["recoveries"] == 0
    assert document["yearly"]["SR"]["calm_days"] == pytest.approx(365 * days["calm/SR"]["lost"])
    assert "lost without failures (days of all tuples)" in (tmp_path / "internet.html").read_text()
    for kind in ("rack", "pdu"):
        lost = {variant: days[f"{kind}/{variant}"]["lost"] for variant in ("NR", "LAAR", "PPA", "combined")}
        assert min(lost.values()) > -1e-6
        assert lost["LAAR"] < lost["NR"]
        assert max(lost["PPA"], lost["combined"]) < 0.1 * lost["NR"]
    assert (tmp_path / "cost-and-loss.svg").read_text().count("var(--") == 0
    held = {finding["name"]: finding["holds"] for finding in document["findings"]}
    assert held["LAAR loses less than no replication when a rack or a power unit fails"]
    for record in days.values():
        record |= {"lost": 0.1, "waiting_s": 1.0, "cpu_s": 1.0}
    assert [finding.name for finding in internet_findings(days) if finding.holds] == []
