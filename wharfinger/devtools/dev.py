"""What `./dev` does once its environment is there; see `./dev --help`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import click

from wharfinger.devtools.cluster import Cluster
from wharfinger.devtools.containerd import DevtoolsError

ROOT = Path(__file__).resolve().parents[2]
LOCAL = ROOT / ".local"
EXAMPLE = "examples/pod.yaml"
LINTERS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("lint-imports",),
    ("mypy",),
)


def say(text: str) -> None:
    """Print progress at once, also into a pipe."""
    click.echo(f"dev: {text}")
    sys.stdout.flush()


def local() -> Cluster:
    """Return the cluster of this checkout."""
    return Cluster(LOCAL, progress=say)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Develop Wharfinger: a cluster on this machine, tests, lint, benchmarks."""


@main.command()
def setup() -> None:
    """Install what is missing: Debian packages, .venv, code generated from proto/."""
    say("everything is installed")


@main.command()
@click.option("--nodes", type=click.IntRange(0, 20), help="Nodes with a real containerd each (default 1).")
@click.option("--hollow", type=click.IntRange(0, 10_000), help="Nodes without containers, in one process (default 0).")
@click.option("--apiservers", type=click.IntRange(1, 3), help="Apiservers over the one etcd (default 1).")
def up(nodes: int | None, hollow: int | None, apiservers: int | None) -> None:
    """Start a cluster below .local/ and an example pod in it; what runs already stays as it is."""
    cluster = local()
    settings = cluster.settings
    settings.default_ports = True
    if nodes is not None:
        settings.nodes = nodes
    if hollow is not None:
        settings.hollow = hollow
    if apiservers is not None:
        settings.apiservers = apiservers
    if settings.nodes and os.geteuid() != 0:
        raise click.ClickException("nodes with containers need root; without it use --nodes 0 --hollow 3")
    started = time.monotonic()
    with errors_shown():
        cluster.up()
        if settings.nodes + settings.hollow:
            show_example(cluster)
    say(f"up after {time.monotonic() - started:.0f} s; try: wharf get nodes   (wharf is .venv/bin/wharf)")


def show_example(cluster: Cluster) -> None:
    """Submit the example pod, wait until it runs, and print it."""
    say(f"wharf apply -f {EXAMPLE}")
    wharf(cluster, "apply", "-f", EXAMPLE)
    wharf(cluster, "wait", "--for=condition=Ready", "-f", EXAMPLE, "--timeout=120s")
    click.echo(wharf(cluster, "get", "nodes"))
    click.echo(wharf(cluster, "get", "pods", "-o", "wide"))


def wharf(cluster: Cluster, *arguments: str) -> str:
    """Run the command line; its failure is ours."""
    done = cluster.wharf(*arguments, check=False)
    if done.returncode != 0:
        raise DevtoolsError(f"`wharf {' '.join(arguments)}` failed:\n{done.stdout}{done.stderr}")
    return done.stdout.rstrip()


@main.command()
@click.option("--purge", is_flag=True, help="Also remove .local/ with etcd's data, certificates and logs.")
def down(purge: bool) -> None:
    """End the cluster; nothing stays running or mounted. Its objects stay in .local/etcd unless --purge is given."""
    with errors_shown():
        local().down(purge=purge)
    say("down" + ("; .local is removed" if purge else "; ./dev up brings it back with its objects"))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def status(as_json: bool) -> None:
    """Show every daemon with its process id, addresses and log file."""
    rows = local().status() if (LOCAL / "cluster.json").exists() else []
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    if not rows:
        say("no cluster here; ./dev up makes one")
        return
    for row in rows:
        state = f"pid {row['pid']}" if row["pid"] else "not running"
        log = os.path.relpath(row["log"], Path.cwd())
        click.echo(f"{row['name']:<22}{state:<14}{', '.join(row['addresses']) or '-':<60} {log}")


@main.command()
@click.argument("name")
def start(name: str) -> None:
    """Start one daemon (as in ./dev status) and wait until it is ready."""
    with errors_shown():
        cluster = local()
        cluster.prepare()
        cluster.start(name)


@main.command()
@click.argument("name")
def stop(name: str) -> None:
    """Stop one daemon (as in ./dev status)."""
    with errors_shown():
        say(f"{name} stopped" if local().stop(name) else f"{name} was not running")


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def test(arguments: tuple[str, ...]) -> None:
    """Run the tests, or those that ARGUMENTS (as pytest takes them) name."""
    sys.exit(subprocess.call([sys.executable, "-m", "pytest", *arguments], cwd=ROOT))


@main.command()
def lint() -> None:
    """Check style (ruff), types (mypy) and layers (import-linter)."""
    failed = []
    for command in LINTERS:
        say(" ".join(command))
        if subprocess.call([str(Path(sys.executable).parent / command[0]), *command[1:]], cwd=ROOT) != 0:
            failed.append(command[0])
    if failed:
        raise click.ClickException(f"failed: {', '.join(failed)}")


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Run benchmarks: api, sched, pod, memory (default: all of them)."""
    sys.exit(subprocess.call([sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT))


@main.command()
@click.option("--cases", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A folder of other cases.")
@click.option("--area", default="*", help="Only this area (a pattern).")
@click.option("--match", default="*", help="Only cases whose name matches this pattern.")
@click.option("-v", "--verbose", is_flag=True, help="Also show what differs in steps that are excepted.")
def golden(cases: Path | None, area: str, match: str, verbose: bool) -> None:
    """Replay recorded conversations with a real kube-apiserver against ours."""
    from wharfinger.devtools.golden import Golden

    with errors_shown():
        passed = Golden(ROOT, progress=say).run(cases=cases, area=area, match=match, verbose=verbose)
    sys.exit(0 if passed else 1)


class errors_shown:  # noqa: N801  (reads as a statement)
    """Turns what went wrong with the machine into a message without a traceback."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DevtoolsError):
            raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main(prog_name="./dev")
