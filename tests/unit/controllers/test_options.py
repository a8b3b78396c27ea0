"""Flags."""

import pytest

from controlplane.controllers.options import Options, parse


def test_defaults_are_kube_controller_managers() -> None:
    options = parse([])
    assert options == Options()
    assert (options.node_monitor_period, options.node_monitor_grace_period) == (5.0, 40.0)
    assert (options.node_eviction_rate, options.secondary_node_eviction_rate) == (0.1, 0.01)
    assert options.terminated_pod_gc_threshold == 12500


def test_durations_and_switches() -> None:
    options = parse(["--node-monitor-grace-period", "1m30s", "--leader-elect=false", "--enable-garbage-collector=0"])
    assert options.node_monitor_grace_period == 90.0
    assert not options.leader_elect
    assert not options.enable_garbage_collector


@pytest.mark.parametrize(
    ("text", "on", "off"),
    [
        ("*", ("replicaset", "namespace"), ()),
        ("*,-namespace", ("replicaset",), ("namespace",)),
        ("replicaset", ("replicaset",), ("namespace",)),
    ],
)
def test_controllers(text: str, on: tuple[str, ...], off: tuple[str, ...]) -> None:
    options = parse([f"--controllers={text}"])
    assert all(options.enabled(name) for name in on)
    assert not any(options.enabled(name) for name in off)


@pytest.mark.parametrize("flags", [["--controllers=nope"], ["--node-monitor-period=5"], ["--leader-elect=perhaps"]])
def test_wrong_flags_are_refused(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(flags)
    assert flags[0].split("=")[0] in capsys.readouterr().err
