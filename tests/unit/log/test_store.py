"""The store: errors of the storage are reported in words."""

from collections.abc import Callable
from pathlib import Path

import pytest
from obstore.store import S3Store

from holdfast.errors import HoldfastError, LogError
from holdfast.log import Store


def test_unusable_root_is_reported(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(HoldfastError, match=r"the log's root .* cannot be opened"):
        Store(blocked / "log")


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (lambda store: store.create("a", b""), "cannot be written"),
        (lambda store: store.replace("a", b""), "cannot be written"),
        (lambda store: store.read("a"), "cannot be read"),
        (lambda store: store.remove(["a"]), "cannot be trimmed"),
        (lambda store: list(store.names("a/")), "cannot be listed"),
    ],
)
def test_unreachable_store_is_reported_for_every_operation(use: Callable[[Store], object], error: str) -> None:
    unreachable = S3Store(
        "logs",
        endpoint="http://127.0.0.1:1",
        region="us-east-1",
        access_key_id="a",
        secret_access_key="b",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    with pytest.raises(LogError, match=rf"^the log at '.*' {error}: "):
        use(Store(unreachable))
