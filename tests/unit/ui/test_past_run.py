"""Reading a finished run from its folder."""

import sqlite3
from contextlib import closing

import pytest

from holdfast.errors import HoldfastError
from holdfast.ui.past_run import read_run


def test_run_of_another_version_is_an_error(past):
    with closing(sqlite3.connect(past / "orchestrator" / "jobs.db")) as database:
        database.execute("""UPDATE jobs SET document = '{"job": "a", "flavour": 1}'""")
        database.commit()
    with pytest.raises(HoldfastError, match=r"written by another version .*\(flavour: .*play it back with that version"):
        read_run(past)


def test_folder_without_a_run_is_an_error(tmp_path):
    with pytest.raises(HoldfastError, match="holds no run; give the --work folder of 'holdfast run'"):
        read_run(tmp_path)
