"""Stock kubectl binaries of several minor versions against our apiserver: what they print and how they exit.

No node is needed here: commands that need one (logs, exec, …) are another matter. Every version runs in its own
namespace and with a cache of its own, so discovery is asked for anew.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.apiserver import Apiserver
from tests.support.etcd import Etcd, have_etcd
from wharfinger import pki


def _binaries() -> list[Path]:
    """Every kubectl of this machine: the versions beside the dispatcher where there are some, else the one there is."""
    found = shutil.which("kubectl")
    if found is None:
        return []
    versions = sorted(Path(found).resolve().parent.glob("kubectl.1.*"))
    return versions or [Path(found)]


BINARIES = _binaries()
OLDEST_AND_NEWEST = [BINARIES[0], BINARIES[-1]] if len(BINARIES) > 1 else BINARIES
_numbers = itertools.count(1)

pytestmark = pytest.mark.skipif(not BINARIES, reason="needs kubectl on the path")


@pytest.fixture(scope="module")
def server() -> Iterator[Apiserver]:
    if not have_etcd():
        pytest.skip("needs an etcd binary on the path (apt install etcd-server etcd-client)")
    with Etcd() as etcd, Apiserver(etcd.endpoint) as running:
        yield running


Kubectl = Callable[..., str]


@pytest.fixture
def kubectl(request: pytest.FixtureRequest, server: Apiserver, tmp_path: Path) -> Kubectl:
    """Run a kubectl in a fresh namespace; returns what it prints. `code` is the exit code wanted, `text` its input."""
    binary: Path = request.getfixturevalue("binary")
    server.config()  # makes the admin's certificate
    ca = pki.load_ca(server.folder)
    pair = pki.read_pair(server.folder, "admin")
    config = tmp_path / "kubeconfig"
    pki.write_kubeconfig(
        config, server=f"https://127.0.0.1:{server.secure_port}", grpc_endpoints=[], ca=ca.cert,
        cert=pair.cert, key=pair.key, user="admin", cluster="test", context="test",
    )  # fmt: skip
    namespace = f"k{next(_numbers)}"
    environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(tmp_path)}

    def run(*arguments: str, code: int = 0, text: str | None = None) -> str:
        done = subprocess.run(
            [str(binary), "-n", namespace, *arguments],
            env=environment, input=text, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == code, f"kubectl {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    run("create", "namespace", namespace)
    return run


def _manifest(**more: Any) -> str:
    value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    return json.dumps(value | more)


every_version = pytest.mark.parametrize("binary", BINARIES, ids=lambda path: path.name)
both_ends = pytest.mark.parametrize("binary", OLDEST_AND_NEWEST, ids=lambda path: path.name)


@every_version
def test_objects_are_made_changed_and_deleted(binary: Path, kubectl: Kubectl) -> None:
    """One pass of the imperative and declarative commands, in the order in which people use them."""
    assert kubectl("create", "-f", "-", text=_manifest()) == "configmap/a created\n"
    assert "AlreadyExists" in kubectl("create", "-f", "-", text=_manifest(), code=1)
    assert "unknown field" in kubectl("create", "-f", "-", text=_manifest(dat={}), code=1)
    assert kubectl("get", "cm", "a", "-o", "jsonpath={.data.k}") == "v"
    lines = kubectl("get", "configmaps").splitlines()
    assert [lines[0].split(), lines[1].split()[:2]] == [["NAME", "DATA", "AGE"], ["a", "1"]]
    assert kubectl("replace", "-f", "-", text=_manifest(data={"k": "2"})) == "configmap/a replaced\n"
    assert kubectl("patch", "cm", "a", "-p", '{"data":{"x":"1"}}').startswith("configmap/a patched")
    for kind, patch in (("merge", '{"data":{"x":"2"}}'), ("json", '[{"op":"remove","path":"/data/x"}]')):
        assert "patched" in kubectl("patch", "cm", "a", "--type", kind, "-p", patch)
    assert kubectl("label", "cm", "a", "tier=web").endswith(" labeled\n")
    assert kubectl("annotate", "cm", "a", "note=1").startswith("configmap/a annotate")
    assert kubectl("get", "cm", "-l", "tier=web", "-o", "name") == "configmap/a\n"
    described = kubectl("describe", "cm", "a")
    assert "tier=web" in described
    assert "note: 1" in described
    assert kubectl("delete", "cm", "a").startswith('configmap "a" deleted')
    assert "NotFound" in kubectl("get", "cm", "a", code=1)
    assert kubectl("apply", "-f", "-", text=_manifest(metadata={"name": "b"})) == "configmap/b created\n"
    assert kubectl("apply", "-f", "-", text=_manifest(metadata={"name": "b"})) == "configmap/b unchanged\n"
    applied = kubectl("apply", "-f", "-", text=_manifest(metadata={"name": "b"}, data={"n": "1"}))
    assert applied == "configmap/b configured\n"
    assert json.loads(kubectl("get", "cm", "b", "-o", "json"))["data"] == {"n": "1"}
    served = _manifest(metadata={"name": "c"})
    for outcome in ("serverside-applied", "serverside-applied"):
        assert kubectl("apply", "--server-side", "-f", "-", text=served) == f"configmap/c {outcome}\n"
    other = _manifest(metadata={"name": "c"}, data={"k": "other"})
    assert "conflict" in kubectl("apply", "--server-side", "--field-manager=x", "-f", "-", text=other, code=1)
    kubectl("apply", "--server-side", "--field-manager=x", "--force-conflicts", "-f", "-", text=other)
    assert kubectl("diff", "--server-side", "--field-manager=x", "-f", "-", text=other) == ""


@both_ends
def test_workloads_are_scaled_and_waited_for(binary: Path, kubectl: Kubectl) -> None:
    """Generators send protobuf from 1.32 on."""
    kubectl("create", "deployment", "web", "--image=registry.example/web:1", "--replicas=2")
    kubectl("scale", "deployment", "web", "--replicas=3")
    kubectl("wait", "deployment/web", "--for=jsonpath={.spec.replicas}=3", "--timeout=20s")
    assert kubectl("get", "deploy", "web", "--no-headers").split()[:2] == ["web", "0/3"]
    kubectl("set", "image", "deployment/web", "web=registry.example/web:2")
    assert "registry.example/web:2" in kubectl("describe", "deployment", "web")
    kubectl("autoscale", "deployment", "web", "--min=1", "--max=4", "--cpu-percent=50")
    assert "Deployment/web" in kubectl("get", "hpa", "web")
    kubectl("expose", "deployment", "web", "--port=80")
    assert kubectl("get", "service", "web", "-o", "jsonpath={.spec.ports[0].port}") == "80"
    for arguments in (
        ("secret", "generic", "s", "--from-literal=a=b"),
        ("job", "j", "--image=registry.example/job:1"),
        ("cronjob", "c", "--image=registry.example/job:1", "--schedule=0 3 * * *"),
        ("role", "r", "--verb=get", "--resource=pods"),
        ("rolebinding", "rb", "--role=r", "--user=alice"),
        ("quota", "q", "--hard=pods=5"),
        ("serviceaccount", "robot"),
        ("poddisruptionbudget", "pdb", "--selector=app=web", "--min-available=1"),
        ("ingress", "i", "--rule=example.com/*=web:80"),
    ):
        assert "created" in kubectl("create", *arguments)
    everything = kubectl("get", "all", "-o", "name").split()
    assert {"deployment.apps/web", "service/web", "job.batch/j", "cronjob.batch/c"} <= set(everything)


@both_ends
def test_nodes_are_tainted_and_drained(binary: Path, kubectl: Kubectl) -> None:
    name = f"node-{next(_numbers)}"
    kubectl("create", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}))
    kubectl("taint", "node", name, "dedicated=x:NoSchedule")
    kubectl("cordon", name)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"nodeName": name, "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i:1"}]},
    }
    kubectl("create", "serviceaccount", "default")
    kubectl("create", "-f", "-", text=json.dumps(pod))
    kubectl("drain", name, "--force", "--timeout=20s")
    assert kubectl("get", "pods", "-o", "name") == ""
    kubectl("uncordon", name)
    assert kubectl("get", "node", name, "-o", "jsonpath={.spec.taints[*].key}").split().count("dedicated") == 1


@every_version
def test_the_api_describes_itself(binary: Path, kubectl: Kubectl) -> None:
    assert "v1.36" in kubectl("version")
    resources = {line.split()[0] for line in kubectl("api-resources", "-o", "name").splitlines()}
    assert {"pods", "deployments.apps", "leases.coordination.k8s.io"} <= resources
    explained = kubectl("explain", "deployment.spec.replicas")
    assert "replicas" in explained
    assert "<integer>" in explained
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert kubectl("get", "--raw", "/readyz") == "ok"
