"""The flags that `./dev up` notes for daemons."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from wharfinger.devtools.cluster import Cluster, Settings
from wharfinger.devtools.dev import SHORT_TIMERS, set_flags


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path, Settings(nodes=2))


def test_a_flag_replaces_itself_and_an_empty_one_takes_all_away(cluster: Cluster) -> None:
    flags = cluster.settings.flags
    set_flags(cluster, short_timers=None, flags=("scheduler=--log-level=debug", "scheduler=--x=a=b"))
    set_flags(cluster, short_timers=None, flags=("scheduler=--log-level=info", "node-2=--max-pods=5"))
    assert flags == {"scheduler": ["--x=a=b", "--log-level=info"], "node-2": ["--max-pods=5"]}
    set_flags(cluster, short_timers=None, flags=("scheduler=",))
    assert "scheduler" not in flags


def test_short_timers_come_and_go_and_leave_other_flags(cluster: Cluster) -> None:
    set_flags(cluster, short_timers=True, flags=("node=--max-pods=5",))
    assert cluster.settings.flags["node"] == [*SHORT_TIMERS["node"], "--max-pods=5"]
    set_flags(cluster, short_timers=True, flags=())
    assert cluster.settings.flags["node"] == [*SHORT_TIMERS["node"], "--max-pods=5"]
    set_flags(cluster, short_timers=False, flags=())
    assert cluster.settings.flags["node"] == ["--max-pods=5"]
    assert not cluster.settings.flags["apiserver"]


@pytest.mark.parametrize("flag", ["node-3=--x", "containerd-node-1=--x", "--log-level=debug"])
def test_unknown_daemons_are_named(cluster: Cluster, flag: str) -> None:
    with pytest.raises(click.BadParameter, match="controller-manager"):
        set_flags(cluster, short_timers=None, flags=(flag,))
