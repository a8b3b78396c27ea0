"""The scheduler in scheduler_perf's workloads, beside the real one: with a standing queue, and created while it works.

All processes share the machine's cores. The figures of kube-scheduler are of another day (published.yaml says where
they are from), so the raw compare-and-swap rate of etcd in this run stands beside. A workload without a figure of its
own is held against that of SchedulingBasic. A third mode, decide, leaves out everything but the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from benchmarks import perf
from benchmarks.decide import decide
from benchmarks.perf import Figures, Mode, Workload
from benchmarks.raw_etcd import raw_cas_rate
from benchmarks.report import Report
from benchmarks.world import APISERVER, world

PUBLISHED = Path(__file__).parent / "published.yaml"
AIMS: dict[Mode, int] = {"standing": 10, "created": 5}
"""How many times the figure of kube-scheduler."""
BASIC = "SchedulingBasic"
AIMED, GROWN = 5000, 15000
SIZES = (500, AIMED)


async def measure(
    *,
    runs: int,
    quick: bool,
    nodes: Sequence[int] = (),
    only: Sequence[str] = (),
    modes: Sequence[Mode] = (),
) -> Report:
    """Return the report; `nodes`, `only` (workloads) and `modes` choose a part of the table."""
    workloads, objects = perf.load()
    if unknown := sorted(set(only) - set(workloads)):
        raise click.BadParameter(f"no workload {unknown[0]!r}; there are {', '.join(workloads)}")
    chosen = [workload for name, workload in workloads.items() if not only or name in only]
    sizes = tuple(nodes) or (SIZES[:1] if quick else SIZES)
    wanted: tuple[Mode, ...] = tuple(modes) or perf.MODES
    published = yaml.safe_load(PUBLISHED.read_text())
    report = Report("sched")
    stores = any(mode in perf.MODES for mode in wanted)
    if stores:
        report.add("raw etcd compare-and-swap, 64 concurrent", [await _raw() for _ in range(runs)], "/s")
    for workload in chosen:
        rates: dict[tuple[int, Mode], float] = {}
        grows = (GROWN,) if workload.growth and AIMED in sizes and not nodes else ()
        for size in (*sizes, *grows):
            if size not in workload.sizes:
                continue
            found = [await _run(workload, objects, size, wanted) for _ in range(runs)]
            for mode in (mode for mode in wanted if mode in found[0]):
                rates[size, mode] = _add(report, workload, size, mode, [entry[mode] for entry in found], published)
            if workload.compare and any(mode in perf.MODES for mode in wanted):
                await _compare(report, workload, objects, size, rates=rates, modes=wanted, runs=runs)
        _growth(report, workload, rates, wanted)
    if stores:
        report.add("raw etcd compare-and-swap afterwards", [await _raw() for _ in range(runs)], "/s")
    return report


async def _run(
    workload: Workload, objects: Mapping[str, Any], size: int, modes: tuple[Mode, ...]
) -> dict[Mode, Figures]:
    figures: dict[Mode, Figures] = {}
    if "decide" in modes:
        figures["decide"] = decide(workload, objects, size)
    if any(mode in workload.modes for mode in modes):
        figures |= await perf.run(workload, objects, size, modes=modes)
    return figures


def _add(
    report: Report, workload: Workload, size: int, mode: Mode, found: Sequence[Figures], published: Mapping[str, Any]
) -> float:
    figures = published.get(workload.name, {})
    here = figures.get("here", {}).get(size)
    mark = "" if here else "*"
    here = here or published[BASIC]["here"].get(size)
    aim = AIMS[mode] * here if here and mode in AIMS and size == AIMED and not workload.compare else None
    note = f"kube {here:g}{mark}" if here else ""
    threshold = figures.get("published", {}).get(size)
    note += f", published {threshold:g}" if threshold else ""
    rate = report.add(
        f"{workload.name} {size} nodes, {mode}", [entry.rate for entry in found], "pods/s", at_least=aim,
        note=f"{note}; {_cpu(found)}",
    )  # fmt: skip
    click.echo(report.line(report.rows[-1]))
    return rate


def _cpu(found: Sequence[Figures]) -> str:
    """Say what the cheapest run cost; on a machine that is busy with other things only this can be compared."""
    best = min(found, key=lambda entry: sum(entry.cpu.values()))
    return "CPU µs/pod: " + ", ".join(f"{name} {value:,.0f}" for name, value in best.cpu_us.items())


async def _compare(
    report: Report,
    workload: Workload,
    objects: Mapping[str, Any],
    size: int,
    *,
    rates: Mapping[tuple[int, Mode], float],
    modes: tuple[Mode, ...],
    runs: int,
) -> None:
    found = [await perf.run(workload, objects, size, modes=modes, **workload.compare) for _ in range(runs)]
    for mode in (mode for mode in modes if mode in workload.modes):
        without = report.add(
            f"{workload.name} {size} nodes, {mode}, without", [entry[mode].rate for entry in found], "pods/s",
            note=_cpu([entry[mode] for entry in found]),
        )  # fmt: skip
        click.echo(report.line(report.rows[-1]))
        report.add(
            f"{workload.name} {size} nodes, {mode}: with / without", [rates[size, mode] / without], "", at_least=0.9
        )


def _growth(
    report: Report, workload: Workload, rates: Mapping[tuple[int, Mode], float], modes: tuple[Mode, ...]
) -> None:
    for mode in modes:
        if (AIMED, mode) in rates and (GROWN, mode) in rates:
            ratio = rates[AIMED, mode] / rates[GROWN, mode]
            name = f"{workload.name} {mode}: seconds a pod, {GROWN} / {AIMED} nodes"
            report.add(name, [ratio], "", at_most=GROWN / AIMED)


async def _raw() -> float:
    async with world(start=[APISERVER]) as (cluster, _):
        ca, cert, key = (
            cluster.pki.joinpath(name).read_bytes() for name in ("etcd-ca.crt", "etcd-client.crt", "etcd-client.key")
        )
        return await raw_cas_rate(cluster.etcd_endpoint, 64, 2, tls=(ca, cert, key))
