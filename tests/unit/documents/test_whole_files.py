"""Files are replaced as a whole."""

import pytest

from holdfast.documents.whole_files import replace_file


def test_failed_write_leaves_no_temporary_file(tmp_path):
    (tmp_path / "token").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "token", "secret")
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


def test_file_with_a_secret_is_never_readable_for_others(tmp_path):
    path = tmp_path / "token"
    replace_file(path, lambda file: file.write(oct(next(tmp_path.glob(".token*")).stat().st_mode & 0o777).encode()), mode=0o600)
    assert path.read_text() == "0o600"
    assert path.stat().st_mode & 0o777 == 0o600
