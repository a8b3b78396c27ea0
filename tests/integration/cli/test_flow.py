"""The commands of everyday, against a real apiserver over a real etcd, as processes."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.integration.cli.conftest import Wharf
from tests.support.apiserver import Apiserver
from wharfinger import pki

EXAMPLES = Path(__file__).parents[3] / "examples"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: web}}
spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: x}]}
"""
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: %s}\n"


def test_create_get_delete(wharf: Wharf) -> None:
    pod = str(EXAMPLES / "pod.yaml")
    assert wharf("create", "-f", pod) == "pod/hello created\n"
    err = wharf("create", "-f", pod, code=1)
    assert err == f'Error from server (AlreadyExists): error when creating "{pod}": pods "hello" already exists\n'
    header, row = wharf("get", "pods").splitlines()
    assert header == "NAME    READY   STATUS    RESTARTS   AGE"
    assert row.startswith("hello   0/1     Pending   0          ")
    assert wharf("get", "po", "hello", "-o", "name") == "pod/hello\n"
    assert yaml.safe_load(wharf("get", "pod/hello", "-o", "yaml"))["spec"]["containers"][0]["name"] == "hello"
    listed = json.loads(wharf("get", "pods", "-o", "json"))
    assert (listed["kind"], len(listed["items"])) == ("List", 1)
    assert wharf("get", "pods", "-o", "jsonpath={.items[*].metadata.name}") == "hello"
    assert wharf("get", "pods", "-l", "app=hello", "-o", "custom-columns=N:.metadata.name") == "N\nhello\n"
    assert "NAMESPACE" in wharf("get", "pods", "-A").splitlines()[0]
    assert wharf("delete", "-f", pod) == f'pod "hello" deleted from {wharf.namespace} namespace\n'
    assert wharf("get", "pod", "hello", code=1) == 'Error from server (NotFound): pods "hello" not found\n'
    assert wharf.run("get", "pods") == ("", f"No resources found in {wharf.namespace} namespace.\n")


def test_several_documents_go_on_after_an_error(wharf: Wharf) -> None:
    text = (
        POD
        % "a"
        + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {containers: [{name: c, imag: x}]}\n---"
        "\nkind: Nope\napiVersion: x/v1\nmetadata: {name: n}\n---" + POD % "b"
    )
    out, err = wharf.run("create", "-f", "-", stdin=text, code=1)
    assert out == "pod/a created\npod/b created\n"
    assert 'Error from server (BadRequest): error when creating "STDIN"' in err
    assert 'unknown field "spec.containers[0].imag"' in err
    assert 'no matches for kind "Nope" in version "x/v1"' in err
    assert wharf("get", "pods", "-o", "name") == "pod/a\npod/b\n"


def test_fields_are_refused_by_name(wharf: Wharf) -> None:
    err = wharf("create", "-f", "-", stdin=POD % "Bad_Name", code=1)
    assert err.startswith('The Pod "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name": ')
    doubled = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","name":"b"}}'
    assert 'duplicate field "metadata.name"' in wharf("create", "-f", "-", stdin=doubled, code=1)
    assert 'namespaces "nope" not found' in wharf("create", "-n", "nope", "-f", "-", stdin=POD % "a", code=1)


def test_dry_run_changes_nothing(wharf: Wharf) -> None:
    assert wharf("create", "-f", "-", "--dry-run=client", stdin=POD % "a") == "pod/a created (dry run)\n"
    assert wharf("create", "-f", "-", "--dry-run=server", stdin=POD % "a") == "pod/a created (server dry run)\n"
    shown = yaml.safe_load(wharf("create", "-f", "-", "--dry-run=server", "-o", "yaml", stdin=POD % "a"))
    assert shown["spec"]["schedulerName"] == "default-scheduler"
    assert wharf("get", "pods", "-o", "name") == ""


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, labels: %s}
spec:
  replicas: %s
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: %s}
"""


def test_apply_merges_three_ways(wharf: Wharf) -> None:
    first = DEPLOYMENT % (
        "{a: b, c: d}",
        1,
        '[{name: c, image: one, env: [{name: A, value: "1"}]}, {name: e, image: e}]',
    )
    assert wharf("apply", "-f", "-", stdin=first) == "deployment.apps/d created\n"
    assert wharf("apply", "-f", "-", stdin=first) == "deployment.apps/d unchanged\n"
    wharf("label", "deploy", "d", "others=stay")
    second = DEPLOYMENT % ("{a: x}", 2, '[{name: c, image: two, env: [{name: B, value: "1"}]}, {name: f, image: f}]')
    assert wharf("apply", "-f", "-", stdin=second) == "deployment.apps/d configured\n"
    assert wharf("apply", "-f", "-", stdin=second) == "deployment.apps/d unchanged\n"
    found = json.loads(wharf("get", "deploy", "d", "-o", "json"))
    assert found["metadata"]["labels"] == {"a": "x", "others": "stay"}
    assert found["spec"]["replicas"] == 2
    containers = found["spec"]["template"]["spec"]["containers"]
    assert [(one["name"], one["image"]) for one in containers] == [("c", "two"), ("f", "f")]
    assert containers[0]["env"] == [{"name": "B", "value": "1"}]


def test_apply_takes_over_what_was_created_otherwise(wharf: Wharf) -> None:
    wharf("create", "-f", "-", stdin=POD % "a")
    out, err = wharf.run("apply", "-f", "-", stdin=POD % "a")
    assert out == "pod/a configured\n"
    assert "is missing the kubectl.kubernetes.io/last-applied-configuration annotation" in err
    assert wharf("apply", "-f", "-", stdin=POD % "a") == "pod/a unchanged\n"


def test_changes(wharf: Wharf) -> None:
    wharf("create", "-f", str(EXAMPLES / "replicaset.yaml"))
    assert wharf("scale", "rs/web", "--replicas=5") == "replicaset.apps/web scaled\n"
    assert wharf("get", "rs", "web", "-o", "jsonpath={.spec.replicas}") == "5"
    assert wharf("scale", "rs/web", "--replicas=1", "--current-replicas=2", code=1) == (
        "error: Expected replicas to be 2, was 5\n"
    )
    assert wharf("label", "rs", "web", "x=y") == "replicaset.apps/web labeled\n"
    assert "--overwrite is false" in wharf("label", "rs", "web", "x=z", code=1)
    assert wharf("label", "rs", "web", "x-") == "replicaset.apps/web unlabeled\n"
    assert wharf("annotate", "rs", "web", "x=y") == "replicaset.apps/web annotated\n"
    patch = '{"spec":{"minReadySeconds":3}}'
    assert wharf("patch", "rs", "web", "-p", patch) == "replicaset.apps/web patched\n"
    assert wharf("patch", "rs", "web", "-p", patch) == "replicaset.apps/web patched (no change)\n"
    json_patch = '[{"op":"replace","path":"/spec/replicas","value":2}]'
    assert wharf("patch", "rs", "web", "--type=json", "-p", json_patch) == "replicaset.apps/web patched\n"
    assert wharf("replace", "-f", str(EXAMPLES / "replicaset.yaml")) == "replicaset.apps/web replaced\n"
    assert wharf("get", "rs", "web", "-o", "jsonpath={.spec.replicas}") == "3"


def test_binding_by_hand(wharf: Wharf) -> None:
    node = f"node-of-{wharf.namespace}"
    wharf("create", "-f", "-", stdin=NODE % node)
    wharf("create", "-f", str(EXAMPLES / "unscheduled-pod.yaml"))
    binding = (EXAMPLES / "binding.yaml").read_text().replace("node-1", node)
    assert wharf("create", "-f", "-", stdin=binding) == "binding/waiting created\n"
    assert wharf("get", "pod", "waiting", "-o", "jsonpath={.spec.nodeName}") == node
    assert "already assigned to node" in wharf("bind", "waiting", node, code=1)
    wharf("create", "-f", "-", stdin=POD % "a")
    assert wharf("bind", "a", node) == f"pod/a bound to node {node}\n"
    assert 'pods "nope" not found' in wharf("bind", "nope", node, code=1)


def test_nodes(wharf: Wharf) -> None:
    node = f"node-of-{wharf.namespace}"
    wharf("create", "-f", "-", stdin=NODE % node)
    assert wharf("cordon", node) == f"node/{node} cordoned\n"
    assert wharf("cordon", node) == f"node/{node} already cordoned\n"
    assert "SchedulingDisabled" in wharf("get", "node", node)
    assert wharf("uncordon", node) == f"node/{node} uncordoned\n"
    assert wharf("taint", "nodes", node, "a=b:NoSchedule") == f"node/{node} tainted\n"
    assert "--overwrite is false" in wharf("taint", "nodes", node, "a=c:NoSchedule", code=1)
    assert wharf("taint", "nodes", node, "a-") == f"node/{node} untainted\n"
    assert f"Name:               {node}\n" in wharf("describe", "node", node)
    wharf("create", "-f", "-", stdin=POD % "a")
    wharf("bind", "a", node)
    assert "declare no controller (use --force to override)" in wharf("drain", node, code=1)


def test_describe(wharf: Wharf) -> None:
    for name in ("pod", "init-containers", "volumes", "replicaset"):
        wharf("create", "-f", str(EXAMPLES / f"{name}.yaml"))
    for target, words in (
        ("pod/hello", "Image:      wharf.local/busybox:1"),
        ("pod/steps", "Init Containers:"),
        ("pod/volumes", "HostPath (bare host directory volume)"),
        ("rs/web", "Replicas:     0 current / 3 desired"),
        ("ns/default", "No resource quota."),
        ("priorityclass/system-node-critical", "Preemption Policy:"),
    ):
        assert words in wharf("describe", target)


def test_wait(wharf: Wharf) -> None:
    wharf("create", "-f", "-", stdin=POD % "a")
    assert wharf("wait", "--for=jsonpath={.status.phase}=Pending", "pod/a") == "pod/a condition met\n"
    err = wharf("wait", "--for=condition=Ready", "pod/a", "--timeout=1s", code=1)
    assert err == "error: timed out waiting for the condition on pods/a\n"
    waiting = wharf.start("wait", "--for=delete", "pod/a", "--timeout=30s")
    wharf("delete", "pod", "a")
    out, err = waiting.communicate(timeout=40)
    # It may have come too late to see the pod; then it says so.
    assert out == "pod/a condition met\n" or 'pods "a" not found' in err


def test_watch_prints_changes_and_ends_cleanly(wharf: Wharf) -> None:
    wharf("create", "-f", "-", stdin=POD % "a")
    watching = wharf.start("get", "pods", "-w", "--output-watch-events")
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline().split() == ["EVENT", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        assert watching.stdout.readline().split()[:2] == ["ADDED", "a"]
        wharf("create", "-f", "-", stdin=POD % "b")
        assert watching.stdout.readline().split()[:2] == ["ADDED", "b"]
        wharf("delete", "pod", "a")
        assert watching.stdout.readline().split()[:2] in (["MODIFIED", "a"], ["DELETED", "a"])
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=20)
        assert watching.returncode == 130
        assert err.strip() == ""
    finally:
        watching.kill()
        watching.wait()


def test_a_reader_that_leaves(wharf: Wharf) -> None:
    command = " ".join([*wharf.command("api-resources"), "| head -1"])
    done = subprocess.run(
        ["bash", "-c", command], env=wharf.environment(), capture_output=True, text=True, check=True
    )  # fmt: skip
    assert done.stdout.startswith("NAME")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("get", "foo"), 'error: the server doesn\'t have a resource type "foo"'),
        (("get",), "error: You must specify the type of resource to get"),
        (("get", "pods", "--nope"), "error: unknown flag: --nope\nSee 'wharf get --help' for usage."),
        (("frobnicate",), 'error: unknown command "frobnicate" for "wharf"'),
        (("get", "pods", "-o", "nope"), "error: unable to match a printer"),
        (("delete", "pods"), "error: resource(s) were provided, but no name was specified"),
        (("get", "pods", "-s", "127.0.0.1:1"), "Unable to connect to the server: connection to 127.0.0.1:1 refused"),
        (("get", "pods", "--context", "nope"), "error: the kubeconfig has no context named 'nope'"),
        (("why", "nope"), 'Error from server (NotFound): pods "nope" not found'),
        (("logs", "nope"), 'Error from server (NotFound): pods "nope" not found'),
        (("apply", "-f", "nope.yaml"), 'error: the path "nope.yaml" does not exist'),
    ],
)
def test_mistakes_are_one_line(wharf: Wharf, arguments: tuple[str, ...], words: str) -> None:
    assert wharf(*arguments, code=1).startswith(words)


def test_the_cluster(wharf: Wharf) -> None:
    assert "Server Version: v1.36" in wharf("version")
    assert "deployments" in wharf("api-resources", "--api-group=apps")
    assert "apps/v1" in wharf("api-versions").split()
    assert "is running at" in wharf("cluster-info")
    assert "Revision" in wharf("etcd", "status")
    assert "no alarms" in wharf("etcd", "disarm")


def test_config(wharf: Wharf) -> None:
    assert wharf("config", "current-context") == "admin@wharfinger\n"
    assert wharf("config", "set-context", "--current", "-n", "other") == 'Context "admin@wharfinger" modified.\n'
    assert wharf("config", "get-contexts").splitlines()[1].split() == [
        "*",
        "admin@wharfinger",
        "wharfinger",
        "admin",
        "other",
    ]
    assert wharf("get", "pods", code=0) == ""
    wharf("config", "set-context", "two", "--cluster", "wharfinger", "--user", "admin")
    assert wharf("config", "use-context", "two") == 'Switched to context "two".\n'
    view = yaml.safe_load(wharf("config", "view"))
    assert view["users"][0]["user"]["client-key-data"] == "DATA+OMITTED"
    assert wharf.kubeconfig.stat().st_mode & 0o777 == 0o600


def test_completion_asks_the_server(wharf: Wharf) -> None:
    wharf("create", "-f", "-", stdin=POD % "some-pod")

    def complete(*words: str) -> list[str]:
        environment = {
            **wharf.environment(), "_WHARF_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["wharf", *words]),
            "COMP_CWORD": str(len(words)),
        }  # fmt: skip
        done = subprocess.run(wharf.command(), env=environment, capture_output=True, text=True, timeout=60, check=False)
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert complete("get", "pods", "som") == ["some-pod"]
    assert complete("get", "pod/so") == ["pod/some-pod"]
    assert "pods" in complete("get", "po")
    assert "describe" in complete("desc")
    assert "_wharf_completion" in wharf("completion", "bash")


def test_small_objects_need_no_file(wharf: Wharf) -> None:
    other = f"{wharf.namespace}-other"
    assert wharf("create", "namespace", other) == f"namespace/{other} created\n"
    assert (
        wharf("create", "ns", other, code=1)
        == f'Error from server (AlreadyExists): namespaces "{other}" already exists\n'
    )
    assert (
        wharf("create", "cm", "c", "--from-literal=a=b", "--from-file", str(EXAMPLES / "pod.yaml"))
        == "configmap/c created\n"
    )
    assert sorted(json.loads(wharf("get", "cm", "c", "-o", "json"))["data"]) == ["a", "pod.yaml"]
    assert wharf("create", "secret", "generic", "s", "--from-literal=a=b") == "secret/s created\n"
    assert wharf("get", "secret", "s", "-o", "jsonpath={.data.a}") == "Yg=="
    assert wharf("create", "deployment", "d", "--image=x/web:1", "-r", "0") == "deployment.apps/d created\n"
    assert "cannot be created without a file" in wharf("create", "pod", "p", code=1)


def test_a_token_in_the_place_of_a_certificate(wharf: Wharf, cli_server: Apiserver) -> None:
    ca = (cli_server.folder / "ca.crt").read_bytes()
    pki.write_kubeconfig(
        wharf.kubeconfig, server="https://127.0.0.1:1", ca=ca, token="admin-token",
        grpc_token_endpoints=[f"127.0.0.1:{cli_server.token_port}"], namespace=wharf.namespace,
    )  # fmt: skip
    assert "default" in wharf("get", "namespaces")
    assert "(Forbidden)" in wharf("get", "secrets", "--token", "alice-token", code=1)
    assert wharf("get", "pods", "--token", "nobody", code=1).startswith("error: You must be logged in to the server")
