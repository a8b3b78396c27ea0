"""Where pods would go: the same engine, on a snapshot of the table of the engine that schedules.

The snapshot is an engine of its own with the same profiles, nodes, placed and nominated pods, budgets and surroundings;
what is decided there touches nothing here. Pods are placed in the order given, each counting for those after it.
"""

from __future__ import annotations

from collections.abc import Collection

from google.protobuf.message import DecodeError

from controlplane.scheduler import why
from controlplane.scheduler.decisions import Diagnosis, Placement
from controlplane.scheduler.engine import Engine
from controlplane.scheduler.gangplacing import GangRefusal, place_gang
from controlplane.scheduler.gangs import Gang, Group
from controlplane.scheduler.observed import ObservedNode
from controlplane.scheduler.peers import Peer
from controlplane.scheduler.podinfo import PodInfo
from controlplane.scheduler.residents import Resident
from wharfinger.api import errors
from wharfinger.api.types import core
from wharfinger.api.types import gangs as gang_types
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
    for data in request.pod_groups:
        key, group = _group(data)
        copy.gangs.set_group(key, group)
    reply = native.SimulateReply(nodes=len(copy.table))
    wanted: list[tuple[PodInfo, native.SimulatedPlacement]] = []
    for entry in request.pods:
        pod = _pod(entry.pod, copy)
        for index in range(max(1, entry.count)):
            one = pod
            if entry.count > 1:
                one = core.Pod()
                one.CopyFrom(pod)
                one.metadata.name = f"{pod.metadata.name}-{index}"
            info = _info(one, copy)
            if info.gang is not None:
                copy.gangs.set_pending(info)
            wanted.append((info, reply.placements.add(namespace=info.namespace, pod=info.name)))
    gangs: set[Gang] = set()
    for info, into in wanted:
        if info.gang is None or (not info.gang.needed and info.gang not in gangs):
            _place(copy, info, into)
        elif info.gang not in gangs:  # the first brings all others along
            gangs.add(info.gang)
            _place_gang(copy, [(one, place) for one, place in wanted if one.gang is info.gang])
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
    for gang in engine.gangs:
        same = copy.gangs.get(gang.key)
        same.group = gang.group
        same.succeeded |= gang.succeeded
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
            its = engine.gangs.of(key)
            if its is not None and (key in its.placed or key in its.binding):
                copy.gangs.set_placed(key, its.key)
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


def _info(pod: core.Pod, engine: Engine) -> PodInfo:
    try:
        info = engine.pods.info(pod)
    except ValueError as error:
        raise errors.BadRequestError(f"pod {pod.metadata.name}: {error}") from error
    engine.table.remove(info.key)  # a pod of that name that is placed already would be replaced
    engine.gangs.drop(info.key)
    return info


def _group(data: bytes) -> tuple[str, Group]:
    try:
        message = gang_types.PodGroup.FromString(data)
    except DecodeError as error:
        raise errors.BadRequestError(f"a PodGroup cannot be read: {error}") from error
    return f"{message.metadata.namespace}/{message.metadata.name}", Group.of(message)


def _gated(engine: Engine, info: PodInfo, into: native.SimulatedPlacement) -> bool:
    gate = engine.profile(info).gate(info)
    if gate is not None:
        into.message = f"{gate.plugin}: {', '.join(gate.reasons)}"
    return gate is not None


def _place_gang(engine: Engine, members: list[tuple[PodInfo, native.SimulatedPlacement]]) -> None:
    ready = {info.key: (info, into) for info, into in members if not _gated(engine, info, into)}
    if not ready:
        return
    gang = next(iter(ready.values()))[0].gang
    assert gang is not None
    outcome = place_gang(engine, [info for info, _ in ready.values()], gang.needed)
    if not outcome.complete:
        refusal = GangRefusal.of(gang, outcome, held=outcome.possible)
        for _, into in ready.values():
            into.message = refusal.message
        for info, candidate in outcome.making_room if outcome.possible else ():
            into = ready[info.key][1]
            into.would_preempt_on = candidate.node
            into.victims.extend(key for key, _ in candidate.victims)
        return
    for info, placement in outcome.placements:
        engine.gangs.begin_binding(info)
        _say_placed(placement, ready[info.key][1])
    for info, diagnosis in outcome.refused:
        _say_refused(engine, info, diagnosis, ready[info.key][1])


def _place(engine: Engine, info: PodInfo, into: native.SimulatedPlacement) -> None:
    if _gated(engine, info, into):
        return
    decision = engine.decide(info)
    if isinstance(decision, Placement):
        _say_placed(decision, into)
    else:
        _say_refused(engine, info, decision, into)


def _say_placed(decision: Placement, into: native.SimulatedPlacement) -> None:
    into.node, into.total, into.feasible_nodes = decision.node, decision.total, decision.feasible
    drawn = f", drawn among {decision.ties} equals" if decision.ties > 1 else ""
    into.message = f"{decision.feasible} of {decision.evaluated} nodes could take it{drawn}"


def _say_refused(engine: Engine, info: PodInfo, decision: Diagnosis, into: native.SimulatedPlacement) -> None:
    into.message = decision.message
    preemption = engine.preempt(info, decision)
    if preemption is not None and preemption.chosen is not None:
        into.would_preempt_on = preemption.chosen.node
        into.victims.extend(key for key, _ in preemption.chosen.victims)
    else:
        into.suggestions.extend(why.suggestions(why.view_now(engine.state(info))))
