"""The parser: its process is bounded, and a job whose application cannot be parsed fails."""

import sys

import pytest

from holdfast.control.jobs.parser import run_parser
from holdfast.documents.job import Job
from holdfast.errors import HoldfastError

from ..conftest import running


async def test_job_fails_if_the_parser_cannot_start(settings, tmp_path, monkeypatch):
    async def no_process(job, **options):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("holdfast.control.jobs.parser.run_parser", no_process)
    (tmp_path / "app.py").touch()
    async with running(settings) as control:
        answer = await control.call("POST", "/v1/jobs", json={"job": "a", "application": str(tmp_path / "app.py"), "log": "l"})
        job = await control.reaches(answer.json()["id"], "failed")
        assert "Too many open files" in job["reason"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("while True: print('x' * 100_000)", "wanted a layout of at most 16777216 bytes, got more; killed the parser"),
        ("import sys; [print('x' * 100_000, file=sys.stderr) for _ in range(100)]; sys.exit('it is broken')", "x\nit is broken$"),
        ("import sys; sys.exit(2)", "the parser ended with 2 and printed nothing"),
    ],
)
async def test_parser_output_is_bounded(monkeypatch, script, words):
    monkeypatch.setattr("holdfast.control.jobs.parser.PARSER", (sys.executable, "-c", script))
    with pytest.raises(HoldfastError, match=words):
        await run_parser(Job(job="a", application="a.py", log="log"))


@pytest.mark.parametrize(("trusted", "name"), [(True, "from-environment"), (False, "none")])
async def test_only_a_trusted_application_sees_the_environment(tmp_path, monkeypatch, trusted, name):
    monkeypatch.setenv("SHOP_NAME", "from-environment")
    application = tmp_path / "app.py"
    application.write_text(
        "import os\nfrom holdfast import App\napp = App(os.environ.get('SHOP_NAME', 'none'))\n"
        "app.sink('out', app.source('orders', 'seq long'))\n"
    )
    layout = await run_parser(Job(job="a", application=str(application), log="log"), trusted=trusted)
    assert layout.application == name
