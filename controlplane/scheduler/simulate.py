"""Where pods would go: the same engine, on a snapshot of the table of the engine that schedules.

The snapshot is an engine of its own with the same profiles, nodes, placed and nominated pods, budgets and surroundings;
what is decided there touches nothing here. Pods are placed in the order given, each counting for those after it.
"""

from __future__ import annotations

from collections.abc import Collection

from google.protobuf.message import DecodeError

from controlplane.scheduler import why
from controlplane.scheduler.decisions import Placement
from controlplane.scheduler.engine import Engine
from controlplane.scheduler.nodetable import Resident
from controlplane.scheduler.observed import ObservedNode
from controlplane.scheduler.peers import Peer
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.proto.native import scheduling_v1_pb2 as native

MOST_PODS = 5000
"""In one request; the answer is worked out in one go."""


def simulate(engine: Engine, request: native.SimulateRequest) -> native.SimulateReply:
    """Place the pods of a request on a snapshot of an engine. Raises BadRequestError for what cannot be read."""
    count = sum(max(1, entry.count) for entry in request.pods)
    if count > MOST_PODS:
        raise errors.BadRequestError(f"{count} pods; at most {MOST_PODS} are simulated at a time")
    given = [_node(data) for data in request.nodes]
    copy = snapshot(
        engine, nodes=not request.only_these_nodes, without=frozenset(request.without_nodes), seed=request.seed
    )
    for node in given:
        copy.table.set_node(node)
    reply = native.SimulateReply(nodes=len(copy.table))
    for entry in request.pods:
        pod = _pod(entry.pod, copy)
        for index in range(max(1, entry.count)):
            one = pod
            if entry.count > 1:
                one = core.Pod()
                one.CopyFrom(pod)
                one.metadata.name = f"{pod.metadata.name}-{index}"
            _place(copy, one, reply.placements.add())
    return reply


def snapshot(engine: Engine, *, nodes: bool = True, without: Collection[str] = (), seed: int = 0) -> Engine:
    """Return an engine that knows what another knows, or only its profiles and surroundings when not `nodes`."""
    copy = Engine(engine.profiles.values(), seed=seed)
    source, target = engine.table, copy.table
    copy.pods.selecting |= engine.pods.selecting
    copy.budgets.update(engine.budgets)
    target.namespaces.update(source.namespaces)
    target.workloads = source.workloads
    if not nodes:
        return copy
    peers: dict[int, Peer] = {}

    def moved(resident: Resident) -> Resident:
        peer = peers.get(id(resident.peer))
        if peer is None:
            before = resident.peer
            peer = peers[id(before)] = Peer(
                before.key, namespace=before.namespace, pod_labels=before.labels, terms=before.terms,
                terminating=before.terminating,
            )  # fmt: skip
        return Resident(
            resident.node, resident.usage, peer, priority=resident.priority, started=resident.started,
            leaving=resident.leaving,
        )  # fmt: skip

    for node in source.nodes:
        if node is not None and node.name not in without:
            target.set_node(node)
    for key, resident in source.placed.items():
        if resident.node not in without:
            target.put(key, moved(resident))
    for node_name in engine.nominations.nodes():
        for key, resident in engine.nominations.on(node_name).items():
            copy.nominations.set(key, moved(resident))
    return copy


def _node(data: bytes) -> ObservedNode:
    try:
        node = core.Node.FromString(data)
        return ObservedNode.of(node)
    except (DecodeError, ValueError) as error:
        raise errors.BadRequestError(f"a node cannot be read: {error}") from error


def _pod(data: bytes, engine: Engine) -> core.Pod:
    try:
        pod = core.Pod.FromString(data)
    except DecodeError as error:
        raise errors.BadRequestError(f"a pod cannot be read: {error}") from error
    pod.spec.ClearField("nodeName")
    if pod.spec.schedulerName not in engine.profiles:
        served = ", ".join(engine.profiles)
        raise errors.BadRequestError(
            f"pod {pod.metadata.name} asks for scheduler {pod.spec.schedulerName!r}, this one serves {served}"
        )
    return pod


def _place(engine: Engine, pod: core.Pod, into: native.SimulatedPlacement) -> None:
    into.namespace, into.pod = pod.metadata.namespace, pod.metadata.name
    try:
        info = engine.pods.info(pod)
    except ValueError as error:
        raise errors.BadRequestError(f"pod {pod.metadata.name}: {error}") from error
    gate = engine.profile(info).gate(info)
    if gate is not None:
        into.message = f"{gate.plugin}: {', '.join(gate.reasons)}"
        return
    engine.table.remove(info.key)  # a pod of that name that is placed already would be replaced
    decision = engine.decide(info)
    if isinstance(decision, Placement):
        into.node, into.total, into.feasible_nodes = decision.node, decision.total, decision.feasible
        drawn = f", drawn among {decision.ties} equals" if decision.ties > 1 else ""
        into.message = f"{decision.feasible} of {decision.evaluated} nodes could take it{drawn}"
        return
    into.message = decision.message
    preemption = engine.preempt(info, decision)
    if preemption is not None and preemption.chosen is not None:
        into.would_preempt_on = preemption.chosen.node
        into.victims.extend(key for key, _ in preemption.chosen.victims)
    else:
        into.suggestions.extend(why.suggestions(why.view_now(engine.state(info))))
