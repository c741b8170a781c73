"""The version of the zone data: that of the data in use, whatever the file of the system holds later."""

import sys
import zoneinfo
from types import ModuleType

import pytest

from apportion.work.cron.zone_data import zone_data_version


@pytest.fixture
def file(tmp_path):
    """The file of the system that has the version."""
    zoneinfo.reset_tzpath([str(tmp_path)])
    zone_data_version.cache_clear()
    yield tmp_path / "tzdata.zi"
    zoneinfo.reset_tzpath()
    zone_data_version.cache_clear()


def test_the_version_stays_that_of_the_data_in_use_when_the_system_gets_newer_data(file):
    file.write_text("# version 2026a\n")
    assert "2026a" == zone_data_version()
    file.write_text("# version 2026b\n")
    assert "2026a" == zone_data_version()


def test_a_damaged_file_costs_the_version_alone(file):
    file.write_bytes(b"# version 2026a\n" + b"\xff" * 100)
    assert "2026a" == zone_data_version()


def test_without_a_file_of_the_system_the_version_is_that_of_the_package(file, monkeypatch):
    package = ModuleType("tzdata")
    package.IANA_VERSION = "2026c"
    monkeypatch.setitem(sys.modules, "tzdata", package)
    assert "2026c" == zone_data_version()


def test_without_any_source_the_version_is_unknown(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "tzdata", None)
    assert "unknown" == zone_data_version()
