"""This agent against the recorded behaviour of a real kubelet, on a real containerd, etcd and apiserver.

All cases are played at the same time in one cluster; each test then says how its case went. What the comparison covers
is said in :mod:`goldencase`. Left out are cases of features that this agent does not have (`docs/nodeagent.md` lists
them) and a few whose recording depends on the pace of that day.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node import goldencase, goldenplayer
from tests.support import containerd
from tests.support.clusters import started
from wharfinger.client import Client, ClientConfig
from wharfinger.devtools.cluster import CONTROLLER_MANAGER, SCHEDULER, Cluster, Settings

_SHARED = Path(os.environ.get("WHARFINGER_SHARED") or Path(__file__).parents[3] / "shared")
GOLDEN = _SHARED / "golden" / "pods"
AT_ONCE = 10

# A kubelet kills and starts in one go when a probe fails or an image changes; we say in between that it has ended.
ENDED_BEFORE_RESTART = (r"Running .* c\[ended 137 Error; last -; restarts 0",)
# The first container ends at once; whether it is seen running depends on the moment.
BOTH_STILL_RUN = (r"a\[running",)

# On a busy machine a probe may come before the server listens, or its command may take more than a second.
UNHEALTHY = ("event Unhealthy",)
# A pull is tried again after ten seconds: on a busy machine that comes before the case has ended.
PULLED_AGAIN = (r"c\[waiting ErrImagePull; last -",)

CASES: dict[str, tuple[str, ...]] = {
    # what ends a container, under each restart policy
    "exit0-onfailure": (), "exit0-always": (), "exit1-onfailure": (), "exit1-always": (), "exit42-always": (),
    "exit137-never": (), "exit255-never": (), "two-ok-never": BOTH_STILL_RUN,
    "kill9-always": (), "kill-two-containers": (),
    "oom-never": (), "command-not-found-never": (), "restart-rules": (), "workdir-missing": (),
    "kill-sandbox-never": (), "kill-sandbox-init": (r"c\[ended 137 Error; last -; restarts 0",),
    # init containers and sidecars
    "init-ok": (), "init-two-in-order": (), "init-fail-never": (), "init-then-job-never": (), "init-kill9": (),
    "sidecar-between-inits": (), "sidecar-shutdown-order": (), "sidecar-job-never": (), "sidecar-readiness": (),
    "sidecar-startup-gates": (), "sidecar-init-fails-after": (), "sidecar-prestop": (), "sidecar-ignores-term": (),
    # images
    "image-always-missing": PULLED_AGAIN, "image-never-missing": (), "image-invalid-name": (), "image-default-cmd": (),
    "image-args-only": (), "image-changed-to-missing": ENDED_BEFORE_RESTART,
    # configuration, volumes
    "configmap-volume-items": (), "configmap-volume-missing-item": (), "volume-missing-configmap": (),
    "secret-volume": (), "secret-volume-fsgroup": (), "projected-collision": (), "refs-optional": (),
    "subpath-configmap-file": (), "envfrom-prefix": (), "env-missing-secret": (), "env-missing-init": (),
    "delete-mount-fail": (), "pvc-missing": (),
    "env-missing-configmap": (), "env-resourcefieldref": (), "emptydir": (), "emptydir-readonly-mount": (),
    "hostpath-file": (), "hostpath-dir-missing": (), "hostpath-dir-is-file": (), "hostpath-file-missing": (),
    "hostpath-socket-missing": (), "fsgroup-emptydir": (), "subpath-escape": (), "subpath-expr-bad": (),
    "run-as-nonroot-uid0": (), "run-as-user-image-groups": (), "tty-stdin": (),
    # limits and rights, as the host shows them
    "qos-burstable": (), "qos-guaranteed": (), "qos-limits-only": (), "qos-tiny-cpu": (), "caps-default": (),
    "caps-drop-some": (), "caps-nonroot": (), "privileged": (), "seccomp-runtimedefault": (), "host-pid": (),
    # probes and hooks
    "readiness-http-ok": UNHEALTHY, "readiness-http-404": (), "readiness-tcp-ok": UNHEALTHY,
    "readiness-success-threshold": UNHEALTHY,
    "liveness-never": (), "liveness-http-fail": ENDED_BEFORE_RESTART, "liveness-tcp-fail": ENDED_BEFORE_RESTART,
    "liveness-exec-timeout": ENDED_BEFORE_RESTART, "startup-fail-never": (), "startup-then-liveness": (),
    "poststart-exec-ok": (), "poststart-exec-slow": (), "poststart-http-fail": (), "prestop-fail": (),
    # refusals
    "reject-cpu": (), "reject-memory": (), "reject-hostport": (), "reject-node-selector": (), "reject-os": (),
    "sysctl-forbidden": (),
    # the end
    "delete-in-init": (), "delete-config-error": (), "delete-sidecar-in-init": (), "term-handled": (),
    "grace-2-ignore-term": (), "grace-shortened": (), "force-delete": (), "deadline": (),
    "deadline-two-never": BOTH_STILL_RUN,
    "label-change-running": (),
    # last words
    "termmsg-path": (), "termmsg-init": (), "termmsg-fallback": (), "termmsg-fallback-ok": (),
    "termmsg-fallback-long": (), "termmsg-crashloop": (),
}  # fmt: skip
"""The cases played, each with patterns of states that may be seen besides the recorded ones."""

pytestmark = [
    pytest.mark.skipif(bool(containerd.why_not()), reason=f"cannot run containers here: {containerd.why_not()}"),
    pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no recorded cases in {GOLDEN}; set WHARFINGER_SHARED"),
]


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """What differed, by case."""
    folder = tmp_path_factory.mktemp("golden")
    with started(Settings(nodes=1, without=[SCHEDULER, CONTROLLER_MANAGER])) as cluster:
        yield asyncio.run(_play_all(cluster, folder))


async def _play_all(cluster: Cluster, folder: Path) -> dict[str, list[str]]:
    gate = asyncio.Semaphore(AT_ONCE)
    async with Client(ClientConfig.load(cluster.kubeconfig)) as client:

        async def play(name: str, also: tuple[str, ...]) -> list[str]:
            async with gate:
                case = goldencase.load_case(GOLDEN / f"{name}.yaml")
                host_dir = folder / "host" / name
                host_dir.mkdir(parents=True)
                player = goldenplayer.Player(
                    client, cluster.runtime("node-1"), node="node-1", name=name, host_dir=host_dir
                )
                try:
                    return goldencase.differences(case, await player.play(case), also)
                except AssertionError as error:
                    return [str(error)]

        found = await asyncio.gather(*(play(name, also) for name, also in CASES.items()))
    return dict(zip(CASES, found, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_behaves_as_recorded(name: str, findings: dict[str, list[str]]) -> None:
    assert not findings[name], "\n".join(findings[name])
