"""What a command line names."""

from __future__ import annotations

import pytest

from wharfinger.api.kinds import KINDS
from wharfinger.cli.failures import CommandError
from wharfinger.cli.targets import find_kind, parse_targets, qualified


@pytest.mark.parametrize(
    ("name", "kind", "group"),
    [
        ("pods", "Pod", ""), ("pod", "Pod", ""), ("po", "Pod", ""), ("Pod", "Pod", ""), ("no", "Node", ""),
        ("nodes", "Node", ""), ("events", "Event", ""), ("ev", "Event", ""),
        ("events.events.k8s.io", "Event", "events.k8s.io"), ("deploy", "Deployment", "apps"),
        ("deployments.apps", "Deployment", "apps"), ("deployments.v1.apps", "Deployment", "apps"),
        ("hpa", "HorizontalPodAutoscaler", "autoscaling"), ("leases.coordination", "Lease", "coordination.k8s.io"),
        ("pc", "PriorityClass", "scheduling.k8s.io"), ("ing", "Ingress", "networking.k8s.io"),
    ],
)  # fmt: skip
def test_names_of_kinds(name: str, kind: str, group: str) -> None:
    found = find_kind(name)
    assert (found.kind, found.group) == (kind, group)


def test_the_newest_version_is_preferred() -> None:
    assert find_kind("hpa").version == "v2"
    assert find_kind("horizontalpodautoscalers.v2.autoscaling").version == "v2"


def test_every_resource_is_found_by_its_full_name() -> None:
    for kind in KINDS:
        if kind.resource and "get" in kind.verbs:
            suffix = f".{kind.version}.{kind.group}" if kind.group else ""
            assert find_kind(kind.resource + suffix) is kind


def _parsed(*arguments: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(qualified(target.kind), target.names) for target in parse_targets(arguments, verb="get")]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("pods",), [("pod", ())]),
        (("po,no",), [("pod", ()), ("node", ())]),
        (("pods,pods",), [("pod", ())]),
        (("pod", "a", "b", "a"), [("pod", ("a", "b"))]),
        (("pod/a", "node/n", "po/b"), [("pod", ("a", "b")), ("node", ("n",))]),
        (("deploy/x",), [("deployment.apps", ("x",))]),
    ],
)
def test_arguments(arguments: tuple[str, ...], expected: list[tuple[str, tuple[str, ...]]]) -> None:
    assert _parsed(*arguments) == expected


def test_all_is_a_category() -> None:
    names = [name for name, _ in _parsed("all")]
    assert {"pod", "service", "deployment.apps", "replicaset.apps", "job.batch"} <= set(names)
    assert "node" not in names


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "You must specify the type of resource"),
        (("nope",), 'doesn\'t have a resource type "nope"'),
        (("pods", "pod/a"), "there is no need to specify a resource type"),
        (("pod/",), "single resource and name"),
        (("a/b/c",), "single resource and name"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        _parsed(*arguments)
