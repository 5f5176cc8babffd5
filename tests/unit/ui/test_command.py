"""The command `holdfast ui`, as far as it needs no orchestrator; scenarios have the rest."""

import pytest
from click.testing import CliRunner

from holdfast.cli.ui import page_address, ui
from holdfast.errors import HoldfastError


def test_the_token_stands_behind_the_hash_where_no_server_sees_it():
    assert page_address("http://head:8470", "a+b") == "http://head:8470/ui/#token=a%2Bb"
    assert page_address("http://head:8470", "t", 3).endswith("/ui/#token=t&job=3")


def test_without_an_orchestrator_or_a_run_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("HOLDFAST_URL", "HOLDFAST_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    run = CliRunner().invoke
    with pytest.raises(HoldfastError, match="no orchestrator has run in 'orchestrator'; start one with 'holdfast serve"):
        run(ui, [], standalone_mode=False, catch_exceptions=False)
    with pytest.raises(HoldfastError, match="holds no run; give the --work folder of 'holdfast run'"):
        run(ui, [str(tmp_path)], standalone_mode=False, catch_exceptions=False)
