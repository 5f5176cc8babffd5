"""Histories in files that stay bounded."""

from holdfast.documents.history import History, read_history


def test_full_history_file_is_rotated_once(tmp_path):
    history = History(tmp_path / "history-1.jsonl", "n1", max_bytes=400)
    for number in range(30):
        history.append("commit", {"epoch": number})
    history.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history-1-before.jsonl", "history-1.jsonl"]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1000
    epochs = [event.about["epoch"] for event in read_history(tmp_path)]
    assert epochs == list(range(epochs[0], 30))
    assert len(epochs) >= 5
