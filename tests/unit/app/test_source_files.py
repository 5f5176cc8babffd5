"""Which files an application is made of."""

from pathlib import Path

import pytest

from holdfast.app.source_files import application_hash, own_files

FILES = {
    "app.py": "import json\nimport pyarrow.compute\nimport helper_of_shop\nfrom shop_rules import prices\nimport holdfast.errors\n",
    "helper_of_shop.py": "import other_of_shop as other\nimport not_there_at_all\n",
    "other_of_shop.py": "def of():\n    import lazy_of_shop\n",
    "lazy_of_shop.py": "",
    "not_imported_of_shop.py": "",
    "shop_rules/__init__.py": "",
    "shop_rules/prices.py": "from . import rounding\nfrom .deep.ends import last\n",
    "shop_rules/rounding.py": "from shop_rules import prices",
    "shop_rules/unused.py": "",
    "shop_rules/deep/__init__.py": "",
    "shop_rules/deep/ends.py": "from .. import rounding\nlast = 1\n",
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_own_files_include_imported_modules(shop):
    files = [str(file.relative_to(shop)) for file in own_files(shop / "app.py")]
    assert files[0] == "app.py"
    assert set(files[1:]) == set(FILES) - {"app.py", "not_imported_of_shop.py", "shop_rules/unused.py"}


def test_hash_changes_with_any_own_file(shop):
    before = application_hash(shop / "app.py")
    (shop / "shop_rules" / "unused.py").write_text("x = 1")
    assert application_hash(shop / "app.py") == before
    (shop / "shop_rules" / "deep" / "ends.py").write_text("last = 2")
    assert application_hash(shop / "app.py") != before


def test_application_without_imports_is_one_file(shop):
    assert own_files(shop / "lazy_of_shop.py") == [shop / "lazy_of_shop.py"]
