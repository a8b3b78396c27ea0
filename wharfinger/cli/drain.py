"""``wharf drain``: empty a node for maintenance, by evictions that disruption budgets can hold up."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
import orjson

from wharfinger.api import kinds
from wharfinger.api.types import apps, core
from wharfinger.cli import selecting
from wharfinger.cli.complete import names_of
from wharfinger.cli.durations import parse_duration
from wharfinger.cli.failures import complain
from wharfinger.cli.nodes import nodes_of, set_unschedulable
from wharfinger.cli.reporting import DRY_RUN, Reporter, quoted
from wharfinger.cli.session import Session, command
from wharfinger.cli.waiting import until_gone

if TYPE_CHECKING:
    from wharfinger.client import Client

MIRROR = "kubernetes.io/config.mirror"
_RETRY = 5.0
_AT_ONCE = 20


@dataclass
class Plan:
    """What is to become of a node's pods. A value, so that the rules can be tested without a cluster."""

    evict: list[core.Pod] = field(default_factory=list)
    refusals: dict[str, list[str]] = field(default_factory=dict)
    """Why pods cannot be evicted → which."""
    warnings: dict[str, list[str]] = field(default_factory=dict)


def plan(
    pods: Sequence[core.Pod], *, daemonsets: set[str], force: bool, ignore_daemonsets: bool, delete_emptydir_data: bool
) -> Plan:
    """Decide about each pod of a node.

    `daemonsets` are the DaemonSets that exist, as ``namespace/name``: a pod of one that is gone is like one without
    a controller.
    """
    result = Plan()
    for pod in pods:
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if MIRROR in pod.metadata.annotations:
            continue
        owner = next((one for one in pod.metadata.ownerReferences if one.controller), None)
        finished = pod.status.phase in ("Succeeded", "Failed")
        refusal = warning = ""
        if owner is not None and owner.kind == "DaemonSet" and not finished:
            if f"{pod.metadata.namespace}/{owner.name}" in daemonsets:
                if ignore_daemonsets:
                    result.warnings.setdefault("ignoring DaemonSet-managed Pods", []).append(name)
                else:
                    text = "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
                    result.refusals.setdefault(text, []).append(name)
                continue
            refusal = "cannot delete Pods with an orphaned DaemonSet (use --force to override)"
            warning = "deleting Pods with an orphaned DaemonSet"
        elif owner is None and not finished:
            refusal = "cannot delete Pods that declare no controller (use --force to override)"
            warning = "deleting Pods that declare no controller"
        local = not finished and any(volume.volumeSource.HasField("emptyDir") for volume in pod.spec.volumes)
        refused = False
        if refusal and not force:
            result.refusals.setdefault(refusal, []).append(name)
            refused = True
        if local and not delete_emptydir_data:
            # Said beside the other reason: whoever adds one flag should not learn of the next one only then.
            text = "cannot delete Pods with local storage (use --delete-emptydir-data to override)"
            result.refusals.setdefault(text, []).append(name)
            refused = True
        if refused:
            continue
        if local:
            result.warnings.setdefault("deleting Pods with local storage", []).append(name)
        if warning:
            result.warnings.setdefault(warning, []).append(name)
        result.evict.append(pod)
    return result


@command(name="drain")
@click.argument("names", nargs=-1, metavar="NODE...", shell_complete=names_of("nodes"))
@selecting.SELECTOR
@click.option("--force", is_flag=True, help="Also pods that nothing will make anew.")
@click.option("--ignore-daemonsets", is_flag=True, help="Leave pods of DaemonSets alone.")
@click.option("--delete-emptydir-data", is_flag=True, help="Also pods with emptyDir volumes.")
@click.option("--disable-eviction", is_flag=True, help="Delete instead of evicting: budgets are not asked.")
@click.option("--grace-period", type=int, default=-1, help="Seconds that pods get to end (-1: as they say).")
@click.option("--pod-selector", default="", metavar="SELECTOR", help="Only pods that the label selector matches.")
@click.option("--timeout", default="0s", metavar="DURATION", help="Give up after this time (0s: never).")
@DRY_RUN
async def drain(session: Session, **options: Any) -> int:
    """Cordon nodes and evict their pods.

    \b
      wharf drain node-1 --ignore-daemonsets
      wharf drain node-1 --force --delete-emptydir-data
    """
    reporter = Reporter(None, dry_run=options["dry_run"])
    limit = parse_duration(options["timeout"], flag="--timeout") or None
    async with session.client() as client:
        nodes = await nodes_of(client, options["names"], options["selector"], reporter)
        for node in nodes:
            await set_unschedulable(client, node, value=True, reporter=reporter)
        for index, node in enumerate(nodes):
            try:
                async with asyncio.timeout(limit):
                    done = await _drain(client, node, options, reporter)
            except TimeoutError:
                done = False
                reporter.error(f"global timeout reached: {options['timeout']}")
            if not done:
                complain("There are pending nodes to be drained:")
                for pending in nodes[index:]:
                    complain(f" {pending.metadata.name}")
                return 1
    return reporter.finish()


async def _drain(client: Client, node: core.Node, options: dict[str, Any], reporter: Reporter) -> bool:
    name = node.metadata.name
    pods = await client.resource(core.Pod).list(
        field_selector=f"spec.nodeName={name}", label_selector=options["pod_selector"]
    )
    sets = await client.resource(apps.DaemonSet).list()
    decided = plan(
        pods.items,
        daemonsets={f"{one.metadata.namespace}/{one.metadata.name}" for one in sets.items},
        force=options["force"],
        ignore_daemonsets=options["ignore_daemonsets"],
        delete_emptydir_data=options["delete_emptydir_data"],
    )
    if decided.refusals:
        reasons = ", ".join(f"{text}: {', '.join(names)}" for text, names in decided.refusals.items())
        if len(decided.refusals) > 1:
            reasons = f"[{reasons}]"
        reporter.error(f'unable to drain node "{name}" due to error: {reasons}, continuing command...')
        return False
    if decided.warnings:
        complain("Warning: " + "; ".join(f"{text}: {', '.join(names)}" for text, names in decided.warnings.items()))
    gate = asyncio.Semaphore(_AT_ONCE)
    done = await asyncio.gather(*(_evict(client, pod, options, reporter, gate) for pod in decided.evict))
    if not all(done):
        return False
    reporter.done({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}}, "drained")
    return True


async def _evict(
    client: Client, pod: core.Pod, options: dict[str, Any], reporter: Reporter, gate: asyncio.Semaphore
) -> bool:
    from wharfinger.api.errors import NotFoundError, ServiceUnavailableError, StatusError, TooManyRequestsError

    namespace, name = pod.metadata.namespace, pod.metadata.name
    kind = kinds.of(core.Pod)
    async with gate:
        reporter.say(f"evicting pod {namespace}/{name}")
        sys.stdout.flush()
        if options["dry_run"] != "none":
            return True
        while True:
            try:
                await _end(client, pod, options)
                await until_gone(client, kind, name, namespace=namespace, uid=pod.metadata.uid)
            except NotFoundError:
                pass
            except TooManyRequestsError as error:
                complain(
                    f"error when evicting pods/{quoted(name)} -n {quoted(namespace)} "
                    f"(will retry after {_RETRY:.0f}s): {error.message}"
                )
                await asyncio.sleep(_RETRY)
                continue
            except ServiceUnavailableError:
                raise
            except StatusError as error:
                reporter.status(error, source=f"evicting pods/{quoted(name)} -n {quoted(namespace)}")
                return False
            break
    reporter.say(f"pod/{name} {'deleted' if options['disable_eviction'] else 'evicted'}")
    sys.stdout.flush()
    return True


async def _end(client: Client, pod: core.Pod, options: dict[str, Any]) -> None:
    namespace, name, uid = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
    grace = options["grace_period"] if options["grace_period"] >= 0 else None
    if options["disable_eviction"]:
        await client.resource(core.Pod).delete(name, namespace=namespace, uid=uid, grace_period_seconds=grace)
        return
    eviction: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        # Not another pod that has taken its name meanwhile.
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    if grace is not None:
        eviction["deleteOptions"]["gracePeriodSeconds"] = grace
    await client.raw(kinds.of(core.Pod)).create(
        orjson.dumps(eviction), namespace=namespace, name=name, subresource="eviction"
    )
