"""The command holdfast reproduce generate."""

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.plan import plan
from holdfast.errors import HoldfastError
from holdfast_papers.reproduce import reproduce


def generate(*arguments: object) -> Result:
    return CliRunner().invoke(reproduce, ["generate", *map(str, arguments)])


def planned(*arguments: object) -> Result:
    return CliRunner().invoke(plan, [str(argument) for argument in arguments])


def fails(*arguments: object) -> HoldfastError:
    result = generate(*arguments)
    assert isinstance(result.exception, HoldfastError), result.output
    return result.exception


@pytest.mark.parametrize(("kind", "option"), [("topology", ["--budget", 3]), ("application", ["--ic", 0.1])])
def test_generated_documents_depend_on_the_seed(tmp_path, kind, option):
    small = ["--set", "nodes=2", "--set", "pes_per_node=2"] if kind == "application" else ["--set", "parallelism=1:4"]
    first, again, folder = tmp_path / "1.yaml", tmp_path / "2.yaml", tmp_path / "corpus"
    for out in (first, again):
        assert generate(kind, "--seed", 7, *small, "--out", out).exit_code == 0
    assert first.read_text() == again.read_text()
    assert planned(first, *option).exit_code == 0
    assert generate(kind, "--seed", 7, "--count", 3, *small, "--out", folder).exit_code == 0
    assert [path.name for path in sorted(folder.iterdir())] == [f"{kind}000{n}.yaml" for n in range(3)]
    assert (folder / f"{kind}0000.yaml").read_text() == first.read_text()
    assert "exists already; give another --out, or --force" in str(fails(kind, "--out", first))


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("colour=red", "--set knows no 'colour'; names and their defaults are: operators=5:10"),
        ("zipf=steep", "--set zipf wants a value such as 0, got 'steep'"),
        ("parallelism=9:3", "range 'parallelism' wants 1 <= low <= high, got 9 to 3"),
        ("kind=odd", "'kind' wants one of general, structured, full, got 'odd'"),
        ("zipf=nan", "wanted zipf >= 0"),
    ],
)
def test_generator_settings_are_checked(tmp_path, setting, text):
    assert text in str(fails("topology", "--set", setting, "--out", tmp_path / "t.yaml"))


def test_all_wrong_generator_settings_are_reported(tmp_path):
    wrong = ("colour=red", "size=9", "zipf=steep", "parallelism=9:3", "joins=2", "rate=1", "rate=2")
    settings = [word for setting in wrong for word in ("--set", setting)]
    text = str(fails("topology", *settings, "--out", tmp_path / "t.yaml"))
    for part in (
        "what --set gives has 5 errors",
        "--set knows no 'colour', 'size'; names",
        "--set zipf wants a value such as 0, got 'steep'",
        "range 'parallelism' wants 1 <= low <= high, got 9 to 3",
        "share 'joins' must lie between 0 and 1, got 2",
        "--set gives 'rate' twice",
    ):
        assert part in text
    many = fails("application", "--set", "replicas=17", "--set", "source_rate=0:1", "--out", tmp_path / "a.yaml")
    assert "'replicas' wants at most 16, got 17" in str(many) and "range 'source_rate' wants 0 < low" in str(many)


@pytest.mark.parametrize(
    ("kind", "setting", "message"),
    [
        ("application", "cost=1e-320", "range 'cost' wants numbers from 1e-09 to 1e+09"),
        ("application", "selectivity=1e300", "range 'selectivity' wants numbers from 1e-09 to 1e+09"),
        ("application", "source_rate=1e307:1e308", "range 'source_rate' wants numbers from 1e-09 to 1e+09"),
        (
            "application",
            "selectivity=1e9 out_degree=20 nodes=12 pes_per_node=12",
            "give a range 'selectivity' nearer to 1, fewer PEs or a smaller 'out_degree'",
        ),
        ("topology", "rate=1e308", "'rate' wants 0 or a number from 1e-09 to 1e+09, got 1e+308"),
    ],
)
def test_unplannable_documents_are_not_generated(tmp_path, kind, setting, message):
    out = tmp_path / "corpus"
    settings = [word for one in setting.split() for word in ("--set", one)]
    assert message in str(fails(kind, *settings, "--count", 3, "--out", out))
    assert not out.exists()


@pytest.mark.parametrize("setting", ["selectivity=1e-9", "cost=1e-9", "source_rate=1e-9:1e9", "selectivity=3:30"])
def test_generated_documents_can_be_planned(tmp_path, setting):
    out = tmp_path / "application.yaml"
    result = generate("application", "--set", setting, "--set", "nodes=2", "--set", "pes_per_node=3", "--out", out)
    assert result.exit_code == 0, result.output
    assert planned(out, "--ic", 0, "--planner", "sr").exit_code == 0
