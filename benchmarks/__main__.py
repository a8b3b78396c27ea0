"""Run benchmarks: ``./dev bench [api|http|sched|pod|memory|codec …]``. Each prints a table and a JSON line."""

from __future__ import annotations

import importlib
import json
import time
from pathlib import Path

import click
import uvloop

from benchmarks.report import Report

NAMES = ("api", "http", "sched", "pod", "memory", "codec")
RESULTS = Path(__file__).parent / "results"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--runs", type=click.IntRange(1, 20), help="Runs of each measurement (3; sched: 1); the median is shown.")
@click.option("--quick", is_flag=True, help="Smaller sizes, to see that it works; the figures say little.")
@click.option("--nodes", multiple=True, type=int, help="sched: only at this number of nodes (500, 5000, 15000).")
@click.option("--workload", multiple=True, help="sched: only this workload of benchmarks/workloads.yaml.")
@click.option(
    "--mode", multiple=True, type=click.Choice(["standing", "created", "decide"]), help="sched: only this mode."
)
def main(
    names: tuple[str, ...],
    runs: int | None,
    quick: bool,
    nodes: tuple[int, ...],
    workload: tuple[str, ...],
    mode: tuple[str, ...],
) -> None:
    """Measure Wharfinger on this machine, with real processes and a fresh etcd for each part."""
    RESULTS.mkdir(exist_ok=True)
    for name in names or NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        started = time.monotonic()
        chosen = {"nodes": nodes, "only": workload, "modes": mode} if name == "sched" else {}
        count = runs or (1 if name == "sched" else 3)
        report: Report = uvloop.run(module.measure(runs=count, quick=quick, **chosen))
        report.seconds = round(time.monotonic() - started, 1)
        click.echo(report.table())
        line = json.dumps(report.document())
        click.echo(line)
        if not any(chosen.values()):  # a part is no result to keep
            (RESULTS / f"{name}.json").write_text(line + "\n")


if __name__ == "__main__":
    main(prog_name="./dev bench")
