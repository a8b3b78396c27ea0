"""Run benchmarks: ``./dev bench [api|sched|pod|memory|codec …]``. Each prints a table and a JSON line."""

from __future__ import annotations

import importlib
import json
import time
from pathlib import Path

import click
import uvloop

from benchmarks.report import Report

NAMES = ("api", "sched", "pod", "memory", "codec")
RESULTS = Path(__file__).parent / "results"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--runs", default=3, type=click.IntRange(1, 20), help="Runs of each measurement; the median is shown.")
@click.option("--quick", is_flag=True, help="Smaller sizes, to see that it works; the figures say little.")
def main(names: tuple[str, ...], runs: int, quick: bool) -> None:
    """Measure Wharfinger on this machine, with real processes and a fresh etcd for each part."""
    RESULTS.mkdir(exist_ok=True)
    for name in names or NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        started = time.monotonic()
        report: Report = uvloop.run(module.measure(runs=runs, quick=quick))
        report.seconds = round(time.monotonic() - started, 1)
        click.echo(report.table())
        line = json.dumps(report.document())
        click.echo(line)
        (RESULTS / f"{name}.json").write_text(line + "\n")


if __name__ == "__main__":
    main(prog_name="./dev bench")
