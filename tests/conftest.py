"""One Spark session for all tests that need one, and property tests that try the same examples every time."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "holdfast",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("holdfast")

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """A real Spark on two cores; every Spark test shares it."""
    from holdfast.execute.session import open_session

    session = open_session("local[2]", name="holdfast-tests", memory="3g")
    yield session
    session.stop()
