"""What the conformance tests share: every stock kubectl of this machine, and a cluster with one real node.

``stage`` is that cluster, one for the whole session: etcd, apiserver, scheduler, controller-manager, and a node with a
containerd of its own. ``stage.kubectl(binary, namespace)`` runs a kubectl as a user would; ``stage.namespace()`` makes
a fresh namespace with its service account; ``stage.pod(...)`` a running pod of the local busybox image.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters import started
from wharfinger.devtools.cluster import Cluster, Settings
from wharfinger.devtools.images import BUSYBOX_IMAGE

NODE = "node-1"
_numbers = itertools.count(1)


def kubectl_binaries() -> list[Path]:
    """Every kubectl of this machine: the versions beside the dispatcher where there are some, else the one there is."""
    found = shutil.which("kubectl")
    if found is None:
        return []
    versions = sorted(Path(found).resolve().parent.glob("kubectl.1.*"))
    return versions or [Path(found)]


@dataclass
class Kubectl:
    """One kubectl in one namespace."""

    binary: Path
    kubeconfig: Path
    namespace: str
    home: Path
    """Where it keeps its cache; one a version, so that each asks for discovery itself."""
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home)}

    def command(self, *arguments: str) -> list[str]:
        return [str(self.binary), "-n", self.namespace, *arguments]

    def run(
        self, *arguments: str, stdin: bytes = b"", code: int = 0, timeout: float = 90
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end and check its exit code."""
        done = subprocess.run(
            self.command(*arguments), env=self.environment, input=stdin, capture_output=True, timeout=timeout,
            check=False,
        )  # fmt: skip
        shown = f"{self.binary.name} {' '.join(arguments)}: {done.returncode}\n{done.stdout!r}\n{done.stderr!r}"
        assert done.returncode == code, shown
        return done

    def __call__(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        """Run a command and return its stdout as text (its stderr when it is to fail)."""
        done = self.run(*arguments, stdin=stdin.encode(), code=code)
        return (done.stderr if code else done.stdout).decode()

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
        """Start a command that goes on; the caller ends it."""
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(self.command(*arguments), env=self.environment, **{**pipes, **more})


class Stage:
    """The cluster; see the module."""

    def __init__(self, cluster: Cluster, homes: Path) -> None:
        self.cluster = cluster
        self._homes = homes

    def kubectl(self, binary: Path, namespace: str) -> Kubectl:
        """Return a kubectl for a namespace."""
        home = self._homes / binary.name
        home.mkdir(parents=True, exist_ok=True)
        return Kubectl(binary, self.cluster.kubeconfig, namespace, home)

    def wharf(self, *arguments: str, text: str | None = None) -> str:
        """Run ``wharf`` and return what it prints."""
        done = self.cluster.wharf(*arguments, check=False, text=text)
        assert done.returncode == 0, f"wharf {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def namespace(self, prefix: str = "t") -> str:
        """Make a namespace of a new name."""
        name = f"{prefix}{next(_numbers)}"
        self.wharf("create", "namespace", name)
        self.wharf("-n", name, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
        return name

    def pod(self, namespace: str, name: str, *command: str, **spec: Any) -> str:
        """Make a pod of the local busybox image and wait until it runs; `spec` are further fields of its container."""
        container = {"name": "c", "image": BUSYBOX_IMAGE, "command": list(command), **spec}
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
        }
        self.wharf("create", "-f", "-", text=json.dumps(document))
        waiting = ("-n", namespace, "wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")
        if self.cluster.wharf(*waiting, check=False).returncode:
            pytest.fail(self.wharf("-n", namespace, "describe", "pod", name), pytrace=False)
        return name


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    settings = Settings(nodes=1, flags={"node": ["--node-status-update-frequency=2s"]})
    with started(settings) as cluster, tempfile.TemporaryDirectory(prefix="wharf-homes-") as folder:
        yield Stage(cluster, Path(folder))
