"""Decisions alone: the workloads on the scheduler's engine in this process, without API, queue and bindings.

What is timed is CPU, pod by pod: filter, score, choose, count there; with preemption, also to find the victims, to take
them away and to place the pod. It depends little on what else the machine does, so it is the figure to compare when
the engine is changed, and to see how the work grows with the nodes.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.perf import Figures, Workload, make
from benchmarks.world import node_like
from controlplane.scheduler.decisions import Diagnosis, Placement
from controlplane.scheduler.engine import Engine
from controlplane.scheduler.observed import ObservedNode, observe_pod
from controlplane.scheduler.podinfo import PodInfo
from controlplane.scheduler.profile import DEFAULT_SCHEDULER_NAME
from wharfinger.api import codec, defaults
from wharfinger.api.types import core

PRIORITY = 10
"""Of pods with a priority class."""


def decide(workload: Workload, objects: Mapping[str, Any], size: int, **overrides: int) -> Figures:
    """Run a workload's ops on an engine; seconds are of CPU. Ops about the API and churn are left out."""
    parameters = {"nodes": size, **workload.sizes[size], **overrides}
    engine = Engine(seed=1)
    figures = Figures(0, 0.0, {})
    for number, op in enumerate(workload.ops):
        arguments: dict[str, Any] = {
            name: parameters[value[1:]] if isinstance(value, str) and value.startswith("$") else value
            for name, value in op.items()
        }
        count, template = arguments.get("count", 0), arguments.get("template", "")
        namespace = arguments.get("namespace", "")
        if op["opcode"] == "createNodes":
            like = codec.from_json(objects[template], core.Node).message
            for index in range(count):
                engine.table.set_node(ObservedNode.of(node_like(index, like)))
        elif op["opcode"] == "createNamespaces":
            for index in range(count):
                name = f"{arguments['prefix']}-{index}"
                engine.table.set_namespace(name, {"kubernetes.io/metadata.name": name})
        elif op["opcode"] == "createPods":
            made: Iterable[Any] = make(objects, template, count, namespace=namespace, number=number)
            infos = [info for info in (_info(engine, pod) for pod in made) if not info.gates]
            gc.collect()
            began = time.process_time()
            placed = sum(_place(engine, info) for info in infos)
            if arguments.get("collectMetrics"):
                seconds = time.process_time() - began
                figures = Figures(len(infos), seconds, {"engine": seconds}, placed)
    return figures


def _info(engine: Engine, pod: core.Pod) -> PodInfo:
    pod.metadata.uid = pod.metadata.name
    pod.spec.schedulerName = DEFAULT_SCHEDULER_NAME
    pod.spec.priority = PRIORITY if pod.spec.priorityClassName else 0
    defaults.apply(pod)
    info = observe_pod(pod, engine.pods, schedulers=frozenset((DEFAULT_SCHEDULER_NAME,))).info
    assert info is not None
    return info


def _place(engine: Engine, info: PodInfo) -> bool:
    decision = engine.decide(info)
    if isinstance(decision, Diagnosis) and info.priority:
        found = engine.preempt(info, decision)
        if found is not None and found.chosen is not None:
            for key, _ in found.chosen.victims:
                engine.table.remove(key)
            engine.nominate(info, found.chosen.node)
            decision = engine.decide(info)
    return isinstance(decision, Placement)
