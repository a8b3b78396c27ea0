"""The scheduler's workloads can be read, and the engine places what they ask for."""

from __future__ import annotations

import pytest
import yaml

from benchmarks import perf
from benchmarks.decide import decide
from benchmarks.sched import PUBLISHED
from wharfinger.api import defaults, validation

WORKLOADS, OBJECTS = perf.load()
SMALL = {"nodes": 12, "initPods": 10, "measurePods": 24, "gatedPods": 5, "hopelessPods": 5}


def test_every_op_is_known_and_finds_its_templates_and_parameters() -> None:
    for workload in WORKLOADS.values():
        for op in workload.ops:
            assert hasattr(perf._Run, f"_op_{op['opcode']}"), workload.name
            for template in [op["template"]] if "template" in op else op.get("templates", []):
                assert template in OBJECTS, workload.name
            for value in op.values():
                if isinstance(value, str) and value.startswith("$") and value != "$nodes":
                    assert all(value[1:] in size for size in workload.sizes.values()), (workload.name, value)
        assert sum(bool(op.get("collectMetrics")) for op in workload.ops) == 1, workload.name


def test_the_figures_to_compare_with_are_of_workloads_that_exist() -> None:
    assert set(yaml.safe_load(PUBLISHED.read_text())) <= set(WORKLOADS)


PODS = [
    name
    for name, entry in sorted(OBJECTS.items())
    if entry.get("kind", "Pod") == "Pod" and "generateName" in entry.get("metadata", {})
]


@pytest.mark.parametrize("template", PODS)
def test_pods_are_valid(template: str) -> None:
    made = next(iter(perf.make(OBJECTS, template, 1)))
    defaults.apply(made)
    assert not validation.validate_create(made)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_the_engine_places_all_that_is_measured(name: str) -> None:
    workload = WORKLOADS[name]
    small = {**SMALL, "initPods": 48, "measurePods": 12} if name == "PreemptionAsync" else dict(SMALL)
    if name in ("PodAntiAffinity", "Daemonset"):
        small |= {"initPods": 4, "measurePods": 8}
    figures = decide(workload, OBJECTS, 500, **small)
    assert figures.pods == figures.placed == small["measurePods"]
