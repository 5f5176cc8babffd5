"""The results folder of a campaign: resuming, locking and damaged or foreign contents."""

import errno
import os
from pathlib import Path

import pytest

from holdfast.assess.campaign_folder import Results, read_campaign, require_not_running
from holdfast.documents.whole_files import write_whole
from holdfast.errors import HoldfastError

from .small_campaign import campaign, facts, outcome


def test_outcomes_outlive_the_process_that_wrote_them(tmp_path):
    trials = list(campaign().trials())
    Results(tmp_path, campaign()).add([(trials[0], outcome(1.0)), (trials[1], outcome(2.0))])
    Results(tmp_path, campaign()).add([(trials[2], outcome(3.0))])
    again = Results(tmp_path, campaign())
    assert again.done() == set(trials[:3])
    assert dict(again.outcomes())[trials[1]].differences["count(*)"].tolist() == [2.0, 0.5]
    assert read_campaign(tmp_path) == campaign()


def test_partially_written_batch_is_ignored(tmp_path):
    results = Results(tmp_path, campaign())
    (tmp_path / "outcomes").mkdir()
    (tmp_path / "outcomes" / ".000000.jsonl.77.part").write_text('{"trial": ["a", 10')
    assert results.done() == set()


def test_resumed_campaign_removes_partial_files(tmp_path):
    results = Results(tmp_path, campaign())
    trial, *_ = campaign().trials()
    results.add([(trial, outcome(1.0))])
    for part in (tmp_path / ".facts.json.99.part", tmp_path / "outcomes" / ".000001.jsonl.99.part"):
        part.write_text("half")
    with results.locked():
        pass
    assert [path.name for path in tmp_path.rglob("*.part")] == []
    assert results.done() == {trial}


def test_folder_of_another_campaign_is_rejected_with_differences(tmp_path):
    first = Results(tmp_path, campaign())
    first.add([(next(campaign().trials()), outcome(1.0))])
    with pytest.raises(HoldfastError, match=r"results of another campaign: its offsets \[10, 20\], now \[10, 30\]"):
        Results(tmp_path, campaign(offsets=(10, 30)))


def test_folder_of_another_trace_is_rejected_with_differing_fields(tmp_path):
    subject = {"application": "shop", "application_sha256": "fccda707364731ad", "trace": "march.parquet", "trace_hash": "0a" * 8}
    first = Results(tmp_path, campaign(subject=subject))
    first.add([(next(campaign().trials()), outcome(1.0))])
    with pytest.raises(HoldfastError) as raised:
        Results(tmp_path, campaign(subject=subject | {"trace": "april.parquet", "trace_hash": "0b" * 8}))
    message = str(raised.value)
    assert (
        'its trace "march.parquet", now "april.parquet"; its trace hash "0a0a0a0a0a0a0a0a", now "0b0b0b0b0b0b0b0b"; give' in message
    )
    assert "shop" not in message


def test_folder_without_results_can_be_reused(tmp_path):
    Results(tmp_path, campaign())
    Results(tmp_path, campaign(offsets=(10, 30)))
    assert read_campaign(tmp_path).offsets == (10, 30)


def refuse(results):
    with pytest.raises(HoldfastError, match="offset 10 lies past the end"), results.locked():
        raise HoldfastError("offset 10 lies past the end")


def test_rejected_campaign_leaves_no_files(tmp_path):
    refuse(Results(tmp_path / "new", campaign()))
    (tmp_path / "empty").mkdir()
    refuse(Results(tmp_path / "empty", campaign()))
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["empty"]


def test_campaign_rejected_later_keeps_its_results(tmp_path):
    results = Results(tmp_path, campaign())
    results.add([(next(campaign().trials()), outcome(1.0))])
    refuse(results)
    assert len(Results(tmp_path, campaign()).done()) == 1


def test_two_campaigns_cannot_run_in_one_folder(tmp_path):
    one = Results(tmp_path, campaign())
    with one.locked():
        with (
            pytest.raises(HoldfastError, match="another process is running a campaign in folder"),
            Results(tmp_path, campaign()).locked(),
        ):
            pytest.fail("it was let in")
        with pytest.raises(HoldfastError, match="holds the results of another campaign"):
            Results(tmp_path, campaign(offsets=(10, 30)))
    with Results(tmp_path, campaign()).locked():
        assert one.done() == set()


def test_results_written_between_opening_and_locking_are_kept(tmp_path):
    trials = list(campaign().trials())
    early, stranger = Results(tmp_path, campaign()), Results(tmp_path, campaign(offsets=(10, 30)))
    with early.locked():
        assert read_campaign(tmp_path) == campaign()
    late = Results(tmp_path, campaign())
    with early.locked():
        early.add([(trials[0], outcome(1.0))])
    with late.locked():
        late.add([(trials[1], outcome(2.0))])
    assert late.done() == set(trials[:2])
    with pytest.raises(HoldfastError, match="holds the results of another campaign"), stranger.locked():
        pytest.fail("it was let in")


def test_resumed_campaign_numbers_batches_after_existing_ones(tmp_path):
    trials = list(campaign().trials())
    for trial in trials[:3]:
        Results(tmp_path, campaign()).add([(trial, outcome(1.0))])
    assert [trial for trial, _ in Results(tmp_path, campaign()).outcomes()] == trials[:3]
    assert len(list((tmp_path / "outcomes").iterdir())) == 3


def test_outcomes_are_read_in_the_order_of_trials(tmp_path):
    trials = list(campaign().trials())
    results = Results(tmp_path, campaign())
    results.add([(trial, outcome(float(n))) for n, trial in reversed(list(enumerate(trials))) if n % 2])
    assert results.done() == set(trials[1::2])
    for n, trial in reversed(list(enumerate(trials))):
        if n % 2 == 0:
            results.add([(trial, outcome(float(n)))])
    read = list(results.outcomes())
    assert [trial for trial, _ in read] == trials
    assert [each.differences["count(*)"][0] for _, each in read] == list(range(len(trials)))


def test_unwritable_folder_is_reported_with_the_systems_reason(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HoldfastError, match="is a file; results need a folder"):
        Results(tmp_path / "file", campaign())
    with pytest.raises(HoldfastError, match=r"below' cannot be created, because '.*file' is a file; give another --out"):
        Results(tmp_path / "file" / "below", campaign())
    with pytest.raises(HoldfastError, match=r"campaign\.json' cannot be written: .*; earlier results are kept"):
        Results(Path("/proc/below"), campaign())


def test_full_disk_is_reported_and_leaves_no_partial_file(tmp_path):
    def fill(file):
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(HoldfastError, match=r"facts\.json' cannot be written: No space left on device"):
        write_whole(tmp_path / "facts.json", fill)
    assert list(tmp_path.iterdir()) == []


def test_folder_without_a_campaign_is_rejected(tmp_path):
    (tmp_path / "thesis.tex").write_text("chapter one")
    with pytest.raises(HoldfastError, match="has files but no campaign"):
        Results(tmp_path, campaign())
    with pytest.raises(HoldfastError, match=r"holds no campaign: it has no campaign\.json"):
        read_campaign(tmp_path)


def test_campaign_is_finished_when_every_trial_has_an_outcome(tmp_path):
    results = Results(tmp_path, campaign())
    results.write("facts", facts())
    results.write("golden", {"runs": [{"count(*)": [1.0]}]})
    assert not results.finished()
    results.add([(trial, outcome(0.0)) for trial in campaign().trials()])
    assert results.finished()


def test_running_campaign_is_noticed_without_its_trace(tmp_path):
    results = Results(tmp_path / "new", campaign())
    require_not_running(tmp_path / "new")
    with results.locked(), pytest.raises(HoldfastError, match="another process is running a campaign in folder"):
        require_not_running(tmp_path / "new")
