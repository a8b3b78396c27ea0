"""Figures of use: differences between two samples, and nothing where there are not two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from nodeagent.hollow import HollowRuntime
from nodeagent.runtime import ContainerUse, RuntimeUnavailable
from nodeagent.usage import UsageMeter, read_host

SECOND = 10**9
WEB = ContainerUse("c1", "web", "uid-1", "web", "default", cpu=5 * SECOND, memory=1 << 20)


class Measuring(HollowRuntime):
    """Says what the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.uses: Sequence[ContainerUse] | None = (WEB,)

    async def usage(self) -> Sequence[ContainerUse]:
        if self.uses is None:
            raise RuntimeUnavailable("away")
        return self.uses


class Host:
    """A host on a clock of its own."""

    def __init__(self) -> None:
        self.now = 0
        self.cpu = 100 * SECOND
        self.runtime = Measuring()
        self.meter = UsageMeter(
            self.runtime,
            host=lambda: (self.cpu, 7 << 30),
            clock=lambda: self.now,
            wall=lambda: self.now + 1_800_000_000 * SECOND,
        )


async def test_two_samples_make_figures() -> None:
    host = Host()
    await host.meter.sample()
    assert not host.meter.report().HasField("node")
    host.now, host.cpu = 10 * SECOND, 115 * SECOND
    host.runtime.uses = (replace(WEB, cpu=7 * SECOND, memory=2 << 20),)
    await host.meter.sample()
    report = host.meter.report()
    assert (report.node.cpu, report.node.memory, report.node.window) == (1_500_000_000, 7 << 30, 10 * SECOND)
    (pod,) = report.pods
    assert (pod.namespace, pod.pod, pod.uid) == ("default", "web", "uid-1")
    assert [(one.name, one.measured.cpu, one.measured.memory) for one in pod.containers] == [
        ("web", 2 * 10**8, 2 << 20)
    ]


async def test_a_container_seen_once_has_no_figures_and_hides_its_pod() -> None:
    host = Host()
    await host.meter.sample()
    host.now = SECOND
    host.runtime.uses = (WEB, replace(WEB, id="c2", name="side"), replace(WEB, id="c3", pod_uid="uid-2"))
    await host.meter.sample()
    assert [pod.uid for pod in host.meter.report().pods] == []
    host.now = 2 * SECOND
    await host.meter.sample()
    assert [len(pod.containers) for pod in host.meter.report().pods] == [2, 1]


async def test_a_runtime_that_is_away_leaves_the_last_figures() -> None:
    host = Host()
    await host.meter.sample()
    host.now = SECOND
    await host.meter.sample()
    host.runtime.uses = None
    with pytest.raises(RuntimeUnavailable):
        await host.meter.sample()
    assert len(host.meter.report().pods) == 1


def test_this_host_can_be_read() -> None:
    cpu, memory = read_host()
    assert cpu > 0
    assert memory > 0
