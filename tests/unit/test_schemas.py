"""The schemas in docs/schema are those of the documents that users write."""

import runpy
from pathlib import Path

import pytest

from holdfast.documents.document import schema_text

ROOT = Path(__file__).parents[2]
MODELS = runpy.run_path(str(ROOT / "scripts" / "write_generated_docs.py"))["MODELS"]
FOLDER = ROOT / "docs" / "schema"


@pytest.mark.parametrize("name", MODELS)
def test_published_schema_is_current(name):
    path = FOLDER / f"{name}.json"
    assert path.read_text() == schema_text(MODELS[name]), "run: python scripts/write_generated_docs.py"


def test_every_published_schema_belongs_to_a_document():
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted(MODELS)
