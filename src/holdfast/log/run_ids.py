"""An id that tells the writes of one log from those of others, for targets outside the log."""

from collections.abc import Callable
from uuid import uuid4

from holdfast.log import Store


def agree_on_run_id(store: Store, name: str, new_id: Callable[[], str] = lambda: uuid4().hex) -> str:
    """Return the id that the log has under a name. The first replica that asks creates it."""
    content = store.read(name)
    if content is None:
        store.create(name, new_id().encode())
        content = store.read(name)
    assert content is not None
    return content.decode()
