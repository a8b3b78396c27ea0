"""The pod and container that a command means: ``web``, ``pod/web``, ``deployment/web`` (one of its pods)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from wharfinger.api.types import core
from wharfinger.cli.durations import parse_duration
from wharfinger.cli.failures import CommandError, complain
from wharfinger.cli.reporting import needs
from wharfinger.cli.targets import find_kind

if TYPE_CHECKING:
    from wharfinger.api.kinds import Kind
    from wharfinger.client import Client

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
RUNNING_TIMEOUT = click.option("--pod-running-timeout", default="1m0s", show_default=True, metavar="DURATION",
                               help="How long to wait until a pod of a workload runs.")  # fmt: skip


async def owner_of(client: Client, namespace: str, target: str) -> tuple[Kind, Any]:
    """Return the kind and the object that ``TYPE/NAME`` or a pod's name stands for."""
    resource, slash, name = target.partition("/")
    if not slash:
        resource, name = "pods", target
    needs(bool(name), "resource name may not be empty")
    kind = find_kind(resource)
    return kind, await client.resource(kind.message).get(name, namespace=namespace)


async def pods_of(client: Client, namespace: str, owner: Any, kind: Kind, *, verb: str) -> list[core.Pod]:
    """Return a workload's pods, the one that is best looked at first."""
    selector = selector_of(owner)
    needs(bool(selector), f"cannot {verb} {kind.group_resource}: it does not select pods")
    found = (await client.resource(core.Pod).list(namespace=namespace, label_selector=selector)).items
    found.sort(
        key=lambda pod: (not pod.spec.nodeName, pod.status.phase != "Running", pod.metadata.creationTimestamp.seconds)
    )
    return found


def selector_of(owner: Any) -> str:
    """Write an owner's pod selector as text; empty when it has none."""
    from wharfinger.api.tables import text

    selector = getattr(getattr(owner, "spec", None), "selector", None)
    if selector is None:
        return ""
    written = text.selector(selector) if hasattr(selector, "matchLabels") else text.labels(selector)
    return "" if written == text.NONE else written


async def one_pod(
    client: Client, namespace: str, target: str, *, verb: str, timeout: str
) -> tuple[core.Pod, Kind, Any]:
    """Return the pod that a target means, with the object named.

    A pod named itself is taken as it is; of a workload one that runs, for which it waits `timeout`.
    """
    kind, owner = await owner_of(client, namespace, target)
    if kind.kind == "Pod":
        return owner, kind, owner
    seconds = parse_duration(timeout, flag="--pod-running-timeout")
    needs(seconds > 0, "--pod-running-timeout must be higher than zero")
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = await pods_of(client, namespace, owner, kind, verb=verb)
                if found and found[0].status.phase == "Running":
                    return found[0], kind, owner
                await asyncio.sleep(0.5)
    except TimeoutError as error:
        raise CommandError(f"{kind.singular}/{owner.metadata.name} has no running pod: timed out waiting") from error


def container_of(pod: core.Pod, wanted: str, *, quiet: bool = False) -> str:
    """Return the container that is meant; says which one it took when there was a choice."""
    name = pod.metadata.name
    every = names(pod)
    if wanted:
        needs(wanted in every, f"container {wanted} is not valid for pod {name}, choose one of: [{' '.join(every)}]")
        return wanted
    annotated = pod.metadata.annotations.get(DEFAULT_CONTAINER, "")
    if annotated in every:
        return annotated
    first = pod.spec.containers[0].name if pod.spec.containers else ""
    if len(every) > 1 and not quiet:
        complain(f'Defaulted container "{first}" out of: {", ".join(_described(pod))}')
    return first


def names(pod: core.Pod) -> list[str]:
    """Return the names of all containers of a pod."""
    return [
        *(one.name for one in pod.spec.initContainers),
        *(one.name for one in pod.spec.containers),
        *(one.ephemeralContainerCommon.name for one in pod.spec.ephemeralContainers),
    ]


def _described(pod: core.Pod) -> list[str]:
    return [
        *(one.name for one in pod.spec.containers),
        *(f"{one.name} (init)" for one in pod.spec.initContainers),
        *(f"{one.ephemeralContainerCommon.name} (ephem)" for one in pod.spec.ephemeralContainers),
    ]


def tty_of(pod: core.Pod, container: str) -> tuple[bool, bool]:
    """Return whether a container has a stdin and a terminal."""
    for one in (*pod.spec.initContainers, *pod.spec.containers, *pod.spec.ephemeralContainers):
        common: Any = getattr(one, "ephemeralContainerCommon", one)
        if common.name == container:
            return bool(common.stdin), bool(common.tty)
    return False, False
