"""Settings that a command writes: the rest of the file stays, and a file that cannot keep it is refused."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.writing import with_settings, write_settings

VALUES: dict[str, object] = {
    "labeler": "cascade",
    "judge.model": "m",
    "judge.spend_per_day_usd": 5.0,
    "cascade.rate": 0.1,
}
RULES = {"alerts": [{"name": "fall", "kind": "drift"}]}
WANTED = {
    "labeler": "cascade",
    "judge": {"model": "m", "spend_per_day_usd": 5.0},
    "cascade": {"rate": 0.1},
    "alerts": [{"name": "fall", "kind": "drift"}],
}

COMMENTED = """# Of the shop team
labeler = "local"   # until there is a judge # really
metrics = [
    "a:b",
]

# the judge of the budget
[judge]
model = "old # name"  # cheap
timeout_s = 30

[judge.prices.old]
input = 1

# rules
[[alerts]]
name = "ours"
kind = "drift"
"""


def test_a_new_file_has_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "new.toml"
    write_settings(file, VALUES, RULES)
    assert tomllib.loads(file.read_text()) == WANTED


def test_comments_order_and_other_settings_stay(tmp_path: Path) -> None:
    file = tmp_path / "ragtide.toml"
    file.write_text(COMMENTED)
    write_settings(file, VALUES, RULES)
    lines = file.read_text().splitlines()
    assert [line for line in COMMENTED.splitlines() if line not in lines] == [
        'labeler = "local"   # until there is a judge # really',
        'model = "old # name"  # cheap',
    ]
    assert 'labeler = "cascade"   # until there is a judge # really' in lines
    assert 'model = "m"  # cheap' in lines
    before, after = tomllib.loads(COMMENTED), tomllib.loads(file.read_text())
    assert after["metrics"] == before["metrics"]
    assert after["judge"] == before["judge"] | {"model": "m", "spend_per_day_usd": 5.0}
    assert after["alerts"] == [*before["alerts"], *RULES["alerts"]]


@pytest.mark.parametrize(
    "text",
    [
        'judge = {model = "m2"}',
        'judge.model = """\nm2"""',
        "alerts = []",
        'labeler = """\nlocal"""',
        'web = """\n[judge]\n"""\n[cascade]\nrate = 0.2',
        "judge = 3",
    ],
)
def test_a_form_that_cannot_be_kept_is_refused_and_the_file_stays(text: str, tmp_path: Path) -> None:
    file = tmp_path / "ragtide.toml"
    file.write_text(text)
    try:
        write_settings(file, VALUES, RULES)
    except ConfigurationError:
        assert file.read_text() == text
    else:  # or the meaning is exactly what it must be
        before = tomllib.loads(text)
        assert {name: tomllib.loads(file.read_text())[name] for name in before if name not in WANTED} == {
            name: before[name] for name in before if name not in WANTED
        }


def test_a_table_in_braces_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ragtide.toml"
    file.write_text("judge = {timeout_s = 3}\n")
    with pytest.raises(ConfigurationError, match="has a form"):
        write_settings(file, VALUES)
    assert file.read_text() == "judge = {timeout_s = 3}\n"


def test_the_same_settings_again_change_nothing(tmp_path: Path) -> None:
    file = tmp_path / "ragtide.toml"
    file.write_text(COMMENTED)
    write_settings(file, VALUES)
    once = file.read_text()
    write_settings(file, VALUES)
    assert file.read_text() == once


def test_mode_line_ends_and_a_link_stay(tmp_path: Path) -> None:
    real = tmp_path / "real.toml"
    real.write_bytes(b'labeler = "local"\r\n[judge]\r\nmodel = "a"\r\n')
    real.chmod(0o640)
    link = tmp_path / "ragtide.toml"
    link.symlink_to(real)
    write_settings(link, VALUES)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert real.read_bytes().count(b"\r\n") == real.read_bytes().count(b"\n")
    assert tomllib.loads(real.read_text())["labeler"] == "cascade"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ragtide.toml", "real.toml"]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "no folder" / "ragtide.toml"
    with pytest.raises(ConfigurationError, match="cannot be written"):
        write_settings(file, VALUES)


def test_a_variable_that_is_stronger_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_CASCADE_RATE", "0.5")
    with pytest.raises(ConfigurationError, match="RAGTIDE_CASCADE_RATE"):
        write_settings(tmp_path / "ragtide.toml", VALUES)
    assert not list(tmp_path.iterdir())


KEYS = st.sampled_from(["a", "b", "a-b", "A_1"])
ANY_KEYS = st.sampled_from(["a", "x y", 'q"', "é", "a.b", ""])
LEAVES = st.one_of(
    st.text(max_size=12), st.integers(-9, 9), st.booleans(), st.floats(allow_nan=False, allow_infinity=False)
)


@given(
    values=st.dictionaries(KEYS, LEAVES, max_size=4),
    more=st.dictionaries(KEYS, st.one_of(LEAVES, st.dictionaries(ANY_KEYS, LEAVES, max_size=2)), max_size=4),
)
def test_any_values_mean_what_was_written(values: dict[str, Any], more: dict[str, Any]) -> None:
    first = with_settings("", {f"judge.{name}": value for name, value in values.items()}, {})
    both = with_settings(first, {f"judge.{name}": value for name, value in more.items()}, {"alerts": [values]})
    judge = {**values, **more}
    assert tomllib.loads(both) == ({"judge": judge} if judge else {}) | {"alerts": [values]}
