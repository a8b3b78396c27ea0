"""kubectl's commands against a cluster with a real node: command by command, version by version.

The oldest and the newest kubectl are driven by default; ``WHARFINGER_KUBECTL=all`` drives every version, and
``WHARFINGER_KUBECTL_TABLE=FILE`` writes what came of it as a table (the one in docs/kubectl.md is such a run's). What
needs streams (exec, attach, cp, port-forward, logs) is in test_kubectl_streams.py.
"""

from __future__ import annotations

import base64
import functools
import http.server
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.conftest import NODE, Kubectl, Stage, kubectl_binaries
from wharfinger.devtools.hosts import wait_for
from wharfinger.devtools.images import BUSYBOX_IMAGE

BINARIES = kubectl_binaries()
if os.environ.get("WHARFINGER_KUBECTL") != "all" and len(BINARIES) > 1:
    BINARIES = [BINARIES[0], BINARIES[-1]]

pytestmark = pytest.mark.skipif(not BINARIES, reason="needs kubectl on the path")

SLEEP = ["sleep", "3600"]
Command = Callable[["Case"], None]
COMMANDS: dict[str, Command] = {}


class Case:
    """What a command's check works with."""

    def __init__(self, kubectl: Kubectl, stage: Stage, folder: Path) -> None:
        self.kubectl = kubectl
        self.stage = stage
        self.folder = folder
        self.version = tuple(int(part) for part in kubectl.binary.name.split(".")[-2:])

    def __call__(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        return self.kubectl(*arguments, stdin=stdin, code=code)

    def file(self, name: str, *documents: dict[str, object]) -> str:
        """Write manifests; return the path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n---\n".join(json.dumps(document) for document in documents))
        return str(path)

    def deployment(self, name: str, replicas: int = 1) -> None:
        """Make a deployment and wait until it is available."""
        self("create", "-f", self.file(f"{name}.json", deployment(name, replicas)))
        self("rollout", "status", f"deployment/{name}", "--timeout=90s")


def command(name: str) -> Callable[[Command], Command]:
    """Register the check of a command."""

    def register(check: Command) -> Command:
        COMMANDS[name] = check
        return check

    return register


def pod(name: str, **spec: object) -> dict[str, object]:
    """Return a pod that sleeps."""
    container = {"name": "c", "image": BUSYBOX_IMAGE, "command": SLEEP}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **spec},
    }  # fmt: skip


def deployment(name: str, replicas: int) -> dict[str, object]:
    """Return a deployment of such pods."""
    template = pod(name)
    template["metadata"] = {"labels": {"app": name}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    }  # fmt: skip


def config_map(name: str, **data: str) -> dict[str, object]:
    """Return a config map."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


# --- the commands -----------------------------------------------------------------------------------------------------


@command("create -f FILE, FOLDER, URL")
def _create(case: Case) -> None:
    assert case("create", "-f", case.file("one.json", config_map("c1"))) == "configmap/c1 created\n"
    case.file("many/a.json", config_map("c2"))
    case.file("many/below/b.json", config_map("c3"))
    assert case("create", "-f", str(case.folder / "many"), "-R").split()[::2] == ["configmap/c2", "configmap/c3"]
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(case.folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        case.file("net.json", config_map("c4"))
        url = f"http://127.0.0.1:{server.server_address[1]}/net.json"
        assert case("create", "-f", url) == "configmap/c4 created\n"
    finally:
        server.shutdown()
        server.server_close()


@command("apply, apply --server-side, diff, -k")
def _apply(case: Case) -> None:
    path = case.file("a.json", config_map("ap", k="1"))
    assert case("apply", "-f", path) == "configmap/ap created\n"
    assert case("apply", "-f", path) == "configmap/ap unchanged\n"
    path = case.file("a.json", config_map("ap", k="2"))
    assert "+" in case.kubectl.run("diff", "-f", path, code=1).stdout.decode()
    assert case("apply", "-f", path) == "configmap/ap configured\n"
    assert case("diff", "-f", path) == ""
    served = case.file("s.json", config_map("ss", k="1"))
    assert case("apply", "--server-side", "-f", served) == "configmap/ss serverside-applied\n"
    (case.folder / "k").mkdir()
    (case.folder / "k" / "kustomization.yaml").write_text("namePrefix: pre-\nresources: [cm.json]\n")
    case.file("k/cm.json", config_map("kust"))
    assert case("apply", "-k", str(case.folder / "k")) == "configmap/pre-kust created\n"
    assert (
        case("apply", "view-last-applied", "cm/ap").strip().endswith("name: ap\n  namespace: " + case.kubectl.namespace)
    )


@command("get in every output")
def _get(case: Case) -> None:
    case("create", "-f", case.file("p.json", pod("shown")))
    case("wait", "--for=condition=Ready", "pod/shown", "--timeout=60s")
    header, row = case("get", "pods").splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:3] == ["shown", "1/1", "Running"]
    assert NODE in case("get", "pod", "shown", "-o", "wide")
    assert json.loads(case("get", "pod", "shown", "-o", "json"))["status"]["phase"] == "Running"
    assert "phase: Running" in case("get", "pod", "shown", "-o", "yaml")
    assert case("get", "pods", "-o", "name") == "pod/shown\n"
    assert case("get", "pod", "shown", "-o", "jsonpath={.spec.nodeName}") == NODE
    assert case("get", "pod", "shown", "-o", "go-template={{.status.phase}}") == "Running"
    assert case("get", "pods", "-o", "custom-columns=N:.metadata.name", "--no-headers") == "shown\n"
    assert "app=shown" in case("get", "pods", "--show-labels")
    assert case("get", "pods", "--field-selector=status.phase=Running", "-o", "name") == "pod/shown\n"
    assert case("get", "pods", "-l", "app!=shown", "-o", "name") == ""
    assert case("get", "pods", "--sort-by=.metadata.name", "-L", "app").splitlines()[1].split()[-1] == "shown"
    # The same list looks the same with wharf.
    ours = case.stage.wharf("-n", case.kubectl.namespace, "get", "pods", "-o", "wide")
    theirs = case("get", "pods", "-o", "wide")
    assert [line.split()[:4] for line in ours.splitlines()] == [line.split()[:4] for line in theirs.splitlines()]


@command("get -w")
def _watch(case: Case) -> None:
    case("create", "-f", case.file("w.json", config_map("seen")))
    watching = case.kubectl.start("get", "configmaps", "-w", "--no-headers", "-o", "name")
    try:
        assert watching.stdout is not None
        for wanted in ("configmap/seen", "configmap/later"):
            while watching.stdout.readline().decode().strip() != wanted:
                assert watching.poll() is None, f"it ended before {wanted}"
            if wanted == "configmap/seen":
                case("create", "configmap", "later")
    finally:
        watching.kill()
        watching.communicate()


@command("describe")
def _describe(case: Case) -> None:
    case("create", "-f", case.file("d.json", pod("told")))
    case("wait", "--for=condition=Ready", "pod/told", "--timeout=60s")
    told = case("describe", "pod", "told")
    assert re.search(r"Status:\s+Running", told)
    assert "Started container" in told or "Started" in told
    assert re.search(r"cpu\s+\d+", case("describe", "node", NODE))
    assert "Labels:" in case("describe", "namespace", case.kubectl.namespace)


@command("label, annotate, patch, edit")
def _change(case: Case) -> None:
    case("create", "-f", case.file("c.json", config_map("ch", k="1")))
    assert case("label", "cm", "ch", "tier=web") == "configmap/ch labeled\n"
    assert case("label", "cm", "ch", "tier-") == "configmap/ch unlabeled\n"
    assert "configmap/ch annotate" in case("annotate", "cm", "ch", "note=x")
    for kind, patch in (
        ("strategic", '{"data":{"s":"1"}}'),
        ("merge", '{"data":{"m":"1"}}'),
        ("json", '[{"op":"add","path":"/data/j","value":"1"}]'),
    ):
        assert "patched" in case("patch", "cm", "ch", "--type", kind, "-p", patch)
    assert sorted(json.loads(case("get", "cm", "ch", "-o", "json"))["data"]) == ["j", "k", "m", "s"]
    case.kubectl.environment["KUBE_EDITOR"] = "sed -i 's/k: .*/k: edited/'"
    assert case("edit", "cm", "ch") == "configmap/ch edited\n"
    assert case("get", "cm", "ch", "-o", "jsonpath={.data.k}") == "edited"


@command("scale, autoscale, expose")
def _scale(case: Case) -> None:
    case.deployment("sized")
    assert case("scale", "deployment/sized", "--replicas=2") == "deployment.apps/sized scaled\n"
    case("rollout", "status", "deployment/sized", "--timeout=90s")
    assert case("get", "deploy", "sized", "--no-headers").split()[1] == "2/2"
    assert "autoscaled" in case("autoscale", "deployment", "sized", "--min=1", "--max=3", "--cpu-percent=50")
    assert case("expose", "deployment", "sized", "--port=80", "--target-port=8080") == "service/sized exposed\n"
    assert case("get", "svc", "sized", "-o", "jsonpath={.spec.selector.app}") == "sized"


@command("rollout status, history, undo, restart, pause, resume")
def _rollout(case: Case) -> None:
    case.deployment("rolled")
    case("set", "env", "deployment/rolled", "GENERATION=2")
    assert "successfully rolled out" in case("rollout", "status", "deployment/rolled", "--timeout=90s")
    history = case("rollout", "history", "deployment/rolled")
    assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ["1", "2"]
    assert "GENERATION" in case("rollout", "history", "deployment/rolled", "--revision=2")
    assert "rolled back" in case("rollout", "undo", "deployment/rolled")
    case("rollout", "status", "deployment/rolled", "--timeout=90s")
    assert case("get", "deploy", "rolled", "-o", "jsonpath={.spec.template.spec.containers[0].env}") == ""
    assert "restarted" in case("rollout", "restart", "deployment/rolled")
    case("rollout", "status", "deployment/rolled", "--timeout=90s")
    assert "paused" in case("rollout", "pause", "deployment/rolled")
    assert "resumed" in case("rollout", "resume", "deployment/rolled")


@command("set image, env, resources, serviceaccount, selector")
def _set(case: Case) -> None:
    case("create", "-f", case.file("s.json", deployment("setted", 0)))
    case("set", "image", "deployment/setted", "c=registry.example/x:2")
    case("set", "resources", "deployment/setted", "--limits=cpu=200m,memory=64Mi")
    case("set", "serviceaccount", "deployment/setted", "default")
    found = json.loads(case("get", "deploy", "setted", "-o", "json"))["spec"]["template"]["spec"]
    assert found["containers"][0]["image"] == "registry.example/x:2"
    assert found["containers"][0]["resources"]["limits"] == {"cpu": "200m", "memory": "64Mi"}
    assert found["serviceAccountName"] == "default"
    case("create", "service", "clusterip", "setted", "--tcp=80")
    case("set", "selector", "service/setted", "app=other")
    assert case("get", "svc", "setted", "-o", "jsonpath={.spec.selector}") == '{"app":"other"}'


@command("taint, cordon, drain, uncordon")
def _drain(case: Case) -> None:
    case("create", "-f", case.file("e.json", pod("evicted")))
    case("wait", "--for=condition=Ready", "pod/evicted", "--timeout=60s")
    try:
        assert case("taint", "node", NODE, "conf=x:PreferNoSchedule").startswith(f"node/{NODE} tainted")
        assert "cordoned" in case("cordon", NODE)
        assert "SchedulingDisabled" in case("get", "node", NODE)
        out = case(
            "drain", NODE, "--force", "--ignore-daemonsets", "--timeout=60s",
            "--pod-selector=app=evicted",
        )  # fmt: skip
        assert "evicting pod" in out
        assert case("get", "pods", "-l", "app=evicted", "-o", "name") == ""
    finally:
        case("uncordon", NODE)
        case("taint", "node", NODE, "conf-")


@command("delete with every cascade")
def _delete(case: Case) -> None:
    for cascade in ("background", "foreground", "orphan"):
        name = f"gone-{cascade}"
        case.deployment(name)
        case("delete", "deployment", name, f"--cascade={cascade}", "--timeout=90s")
        if cascade == "orphan":
            assert case("get", "rs", "-l", f"app={name}", "-o", "name").startswith("replicaset.apps/")
            case("delete", "rs", "-l", f"app={name}")
        case("wait", "--for=delete", "pod", "-l", f"app={name}", "--timeout=90s")
    assert "NotFound" in case("delete", "deployment", "gone-background", code=1)
    case("create", "-f", case.file("f.json", pod("forced")))
    case("delete", "pod", "forced", "--grace-period=0", "--force")


@command("top")
def _top(case: Case) -> None:
    case("create", "-f", case.file("t.json", pod("busy")))
    case("wait", "--for=condition=Ready", "pod/busy", "--timeout=60s")
    # Use is known once the node, and a container, were measured twice.
    wait_for(lambda: NODE in _measured(case, "nodes"), timeout=60, what="the node to be measured")
    assert NODE in case("top", "nodes")
    pods = f"namespaces/{case.kubectl.namespace}/pods"
    wait_for(lambda: "busy" in _measured(case, pods), timeout=60, what="the pod to be measured")
    assert "busy" in case("top", "pod", "busy", "--containers")
    assert "busy" in case.stage.wharf("-n", case.kubectl.namespace, "top", "pods")


def _measured(case: Case, what: str) -> list[str]:
    items = json.loads(case("get", "--raw", f"/apis/metrics.k8s.io/v1beta1/{what}"))["items"]
    return [item["metadata"]["name"] for item in items]


@command("auth can-i, whoami, reconcile")
def _auth(case: Case) -> None:
    assert case("auth", "can-i", "create", "pods") == "yes\n"
    assert "no" in case.kubectl.run("auth", "can-i", "create", "pods", "--as=nobody", code=1).stdout.decode()
    assert "Resources" in case("auth", "can-i", "--list")
    if case.version >= (1, 28):
        assert "kubernetes-admin" in case("auth", "whoami")
    role: dict[str, object] = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "rec", "namespace": case.kubectl.namespace},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }  # fmt: skip
    assert "reconciled" in case("auth", "reconcile", "-f", case.file("role.json", role))


@command("wait")
def _wait(case: Case) -> None:
    case("create", "-f", case.file("x.json", pod("awaited")))
    assert "condition met" in case("wait", "--for=condition=Ready", "pod/awaited", "--timeout=60s")
    case("wait", "--for=jsonpath={.status.phase}=Running", "pod/awaited", "--timeout=30s")
    case("delete", "pod", "awaited", "--wait=false")
    case("wait", "--for=delete", "pod/awaited", "--timeout=60s")
    assert "timed out" in case("wait", "--for=condition=Nope", f"node/{NODE}", "--timeout=1s", code=1)


@command("explain, api-resources, api-versions, cluster-info, version")
def _about(case: Case) -> None:
    assert "replicas" in case("explain", "deployment.spec")
    assert "containerPort" in case("explain", "pod.spec.containers.ports", "--recursive")
    names = case("api-resources", "-o", "name").split()
    assert {"pods", "deployments.apps", "nodes.metrics.k8s.io"} <= set(names)
    assert "apps/v1" in case("api-versions").split()
    assert "is running at" in case("cluster-info")
    assert "v1.36" in case("version")


@command("events")
def _events(case: Case) -> None:
    case("create", "-f", case.file("ev.json", pod("eventful")))
    case("wait", "--for=condition=Ready", "pod/eventful", "--timeout=60s")
    assert "Scheduled" in case("get", "events", "--field-selector=involvedObject.name=eventful")
    assert "pod/eventful" in case("events", "--for", "pod/eventful").lower()


@command("run")
def _run(case: Case) -> None:
    assert case("run", "ran", f"--image={BUSYBOX_IMAGE}", "--command", "--", *SLEEP) == "pod/ran created\n"
    case("wait", "--for=condition=Ready", "pod/ran", "--timeout=60s")
    # What ends before kubectl has attached shows nothing, with any server; so this one waits for its input.
    once = case.kubectl.run(
        "run", "once", f"--image={BUSYBOX_IMAGE}", "--restart=Never", "--rm", "-i", "--command", "--", "cat",
        stdin=b"hello\n",
    )  # fmt: skip
    assert b"hello" in once.stdout


@command("debug (a pod, a copy of it, a node)")
def _debug(case: Case) -> None:
    case("create", "-f", case.file("debugged.json", pod("debugged")))
    case("wait", "--for=condition=Ready", "pod/debugged", "--timeout=90s")
    image = f"--image={BUSYBOX_IMAGE}"
    case("debug", "debugged", image, "-c", "guest", "--target=c", "--", "sh", "-c", "echo here; sleep 3600")
    since = "jsonpath={.status.ephemeralContainerStatuses[0].state.running.startedAt}"
    wait_for(
        lambda: case("get", "pod", "debugged", "-o", since) != "", timeout=90, what="the ephemeral container to run"
    )
    assert case("exec", "debugged", "-c", "guest", "--", "cat", "/proc/1/comm") == "sleep\n", "the target's process"
    wait_for(lambda: case("logs", "debugged", "-c", "guest") == "here\n", timeout=90, what="its log")
    case("debug", "debugged", "--copy-to=copy", image, "-c", "more", "--", "sleep", "3600")
    case("wait", "--for=condition=Ready", "pod/copy", "--timeout=90s")
    case("debug", f"node/{NODE}", image, "--", "ls", "/host/etc/hosts")
    (name,) = [one for one in case("get", "pods", "-o", "name").split() if "node-debugger" in one]
    phase = "jsonpath={.status.phase}"
    wait_for(
        lambda: case("get", name, "-o", phase) in ("Succeeded", "Failed"),
        timeout=90,
        what="the node's files to be listed",
    )
    assert case("logs", name) == "/host/etc/hosts\n"


@command("create of every generator")
def _generators(case: Case) -> None:
    space = f"{case.kubectl.namespace}-made"
    pki = case.stage.cluster.pki
    generators = (
        ("namespace", space), ("configmap", "g1", "--from-literal=a=1"),
        ("secret", "generic", "g1", "--from-literal=a=1"),
        ("secret", "tls", "g2", f"--cert={pki / 'apiserver.crt'}", f"--key={pki / 'apiserver.key'}"),
        ("secret", "docker-registry", "g3", "--docker-server=r.example", "--docker-username=u", "--docker-password=p"),
        ("deployment", "g1", "--image=x", "--replicas=0"), ("job", "g1", f"--image={BUSYBOX_IMAGE}", "--", "true"),
        ("cronjob", "g1", "--image=x", "--schedule=0 0 1 1 *"), ("role", "g1", "--verb=get", "--resource=pods"),
        ("rolebinding", "g1", "--role=g1", "--serviceaccount=default:default"),
        ("clusterrole", f"{space}-g1", "--verb=get", "--resource=nodes"),
        ("clusterrolebinding", f"{space}-g1", f"--clusterrole={space}-g1", "--user=u"),
        ("quota", "g1", "--hard=pods=50"), ("serviceaccount", "g1"), ("service", "clusterip", "g1", "--tcp=80:8080"),
        ("service", "nodeport", "g2", "--tcp=80"), ("service", "loadbalancer", "g3", "--tcp=80"),
        ("service", "externalname", "g4", "--external-name=x.example"),
        ("ingress", "g1", "--rule=x.example/*=g1:80"),
        ("poddisruptionbudget", "g1", "--selector=app=x", "--min-available=1"),
        ("priorityclass", f"{space}-g1", "--value=10"),
    )  # fmt: skip
    for arguments in generators:
        assert "created" in case("create", *arguments), arguments
    token = case("create", "token", "g1").strip()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == f"system:serviceaccount:{case.kubectl.namespace}:g1"
    case("delete", "namespace", space, "--wait=false")
    for kind in ("clusterrole", "clusterrolebinding", "priorityclass"):
        case("delete", kind, f"{space}-g1")


# --- each with each ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=BINARIES, ids=lambda path: path.name)
def kubectl(request: pytest.FixtureRequest, stage: Stage) -> Iterator[Kubectl]:
    """Return a kubectl of each version, in a namespace of its own."""
    namespace = stage.namespace("kn")
    yield stage.kubectl(request.param, namespace)
    stage.wharf("delete", "namespace", namespace, "--no-wait")


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, dict[str, str]]]:
    """Collect what came of each command with each version; written as a table where that is asked for."""
    found: dict[str, dict[str, str]] = {}
    yield found
    if path := os.environ.get("WHARFINGER_KUBECTL_TABLE"):
        versions = [binary.name.removeprefix("kubectl.") for binary in BINARIES]
        lines = [f"| command | {' | '.join(versions)} |", f"| --- |{' --- |' * len(versions)}"]
        lines += [
            f"| {name} | {' | '.join(by_version.get(version, '') for version in versions)} |"
            for name, by_version in found.items()
        ]
        Path(path).write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("name", COMMANDS, ids=lambda name: name.split(",")[0].replace(" ", "-"))
def test_command(
    name: str, kubectl: Kubectl, stage: Stage, tmp_path: Path, outcomes: dict[str, dict[str, str]]
) -> None:
    mine = outcomes.setdefault(name, {})
    version = kubectl.binary.name.removeprefix("kubectl.")
    mine[version] = "fails"
    COMMANDS[name](Case(kubectl, stage, tmp_path))
    mine[version] = "yes"
