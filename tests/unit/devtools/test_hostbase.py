"""Which Debian the test hosts are of."""

from pathlib import Path

import pytest

from wharfinger.devtools.containerd import DevtoolsError
from wharfinger.devtools.hostbase import SUITE_VARIABLE, suites_of
from wharfinger.devtools.hosts import Bed


def test_suites_come_from_the_text_else_the_environment_else_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUITE_VARIABLE, raising=False)
    assert suites_of() == ("bookworm",)
    monkeypatch.setenv(SUITE_VARIABLE, "trixie")
    assert suites_of() == ("trixie",)
    assert suites_of("bookworm, trixie") == ("bookworm", "trixie")


def test_an_unknown_suite_is_refused_by_name() -> None:
    with pytest.raises(DevtoolsError, match="bookworm, trixie, not of sarge"):
        suites_of("trixie,sarge")


def test_hosts_take_the_suites_in_turn_and_a_bed_remembers_them(tmp_path: Path) -> None:
    made = Bed.create(tmp_path / "bed", hosts=3, suites=("bookworm", "trixie"))
    found = Bed.load(tmp_path / "bed")
    assert found == made
    assert [found.suite(name) for name in found.names()] == ["bookworm", "trixie", "bookworm"]
