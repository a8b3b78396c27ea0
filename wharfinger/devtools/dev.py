"""What `./dev` does once its environment is there; see `./dev --help`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import click

from wharfinger.cli.helping import Group
from wharfinger.devtools.cluster import APISERVER, Cluster, own_network
from wharfinger.devtools.containerd import DevtoolsError

ROOT = Path(__file__).resolve().parents[2]
LOCAL = Path(os.environ.get("WHARFINGER_LOCAL") or ROOT / ".local")
"""Where the cluster lives; tests set the variable, so that they do not meet a person's cluster."""
HOSTS = LOCAL / "hosts"
"""What `./dev up --hosts` has made."""
EXAMPLE = "examples/pod.yaml"
SHORT_TIMERS: dict[str, tuple[str, ...]] = {
    "apiserver": ("--default-not-ready-toleration-seconds=5", "--default-unreachable-toleration-seconds=5"),
    "controller-manager": ("--node-monitor-period=1s", "--node-monitor-grace-period=6s"),
    "node": ("--heartbeat-interval=1s", "--node-monitor-grace-period=6s"),
    "hollow": ("--heartbeat-interval=1s",),
}
"""What `./dev up --short-timers` adds: a node is given up seconds after its agent has ended, not minutes."""
PARALLEL = (f"--numprocesses={(os.cpu_count() or 1) + 1}", "--dist=loadfile", "--no-loadscope-reorder")
"""How all tests run: most wait for a process or a timer, so one worker more than there are cores; file by file, since
the tests of a file share a cluster."""
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
    cluster = Cluster(LOCAL, progress=say)
    if "WHARFINGER_LOCAL" in os.environ and not (LOCAL / "cluster.json").exists():
        cluster.settings.prefix, cluster.settings.subnet = own_network()
    return cluster


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
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
@click.option(
    "--short-timers/--usual-timers",
    default=None,
    help="Give up a silent node after 6 s and its new pods 5 s later, not after 40 s and 300 s.",
)
@click.option(
    "--flag",
    "flags",
    multiple=True,
    metavar="DAEMON=FLAG",
    help="One more flag for a daemon, such as scheduler=--log-level=debug; node= is for all agents, and DAEMON= "
    "takes away what was added before.",
)
@click.option(
    "--hosts",
    type=click.IntRange(1, 9),
    help="Instead: so many hosts with their own systemd and network, deployed by the playbooks in ansible/ over SSH.",
)
@click.option(
    "--suite",
    metavar="NAME[,NAME…]",
    help="The Debian of the hosts: bookworm (default) or trixie; of several, hosts take the next in turn.",
)
@click.option(
    "--kind",
    type=click.Choice(["nspawn", "qemu", "mixed"]),
    help="What hosts are: systemd-nspawn machines (default), or virtual machines, which are some twenty times slower.",
)
def up(
    nodes: int | None,
    hollow: int | None,
    apiservers: int | None,
    short_timers: bool | None,
    flags: tuple[str, ...],
    hosts: int | None,
    suite: str | None,
    kind: str | None,
) -> None:
    """Start a cluster below .local/ and an example pod in it; what runs already stays as it is.

    The options are remembered for the next `up`. A daemon whose flags have changed is started again, and nodes above
    --nodes and --hollow are taken away.
    """
    if hosts is not None:
        if (nodes, hollow, apiservers, short_timers) != (None, None, None, None) or flags:
            raise click.UsageError(
                "--hosts goes with --suite and --kind alone: the playbooks' settings are in the inventory"
            )
        up_hosts(hosts, suite, kind)
        return
    if (suite, kind) != (None, None):
        raise click.UsageError("--suite and --kind go with --hosts: other nodes have this machine's system")
    cluster = local()
    settings = cluster.settings
    settings.default_ports = True
    if nodes is not None:
        settings.nodes = nodes
    if hollow is not None:
        settings.hollow = hollow
    if apiservers is not None:
        settings.apiservers = apiservers
    set_flags(cluster, short_timers=short_timers, flags=flags)
    if settings.nodes and os.geteuid() != 0:
        raise click.ClickException("nodes with containers need root; without it use --nodes 0 --hollow 3")
    started = time.monotonic()
    with errors_shown():
        cluster.up()
        if settings.nodes + settings.hollow:
            show_example(cluster)
    say(f"up after {time.monotonic() - started:.0f} s; try: wharf get nodes   (wharf is .venv/bin/wharf)")


def up_hosts(hosts: int, suite: str | None, kind: str | None) -> None:
    """Make hosts and deploy a cluster on them; say how to use it."""
    from wharfinger.devtools import deployment
    from wharfinger.devtools.hostbase import suites_of

    started = time.monotonic()
    with errors_shown():
        made = deployment.up(
            HOSTS, hosts=hosts, suites=suites_of(suite) if suite else (), kind=kind or "", progress=say
        )
    shown = os.path.relpath(HOSTS, Path.cwd())
    click.echo(made.run_wharf("get", "nodes", "-o", "wide").stdout.rstrip())
    say(f"up after {time.monotonic() - started:.0f} s; try:")
    for line in ("wharf get pods -A", "kubectl get nodes", "ssh host-1", "play upgrade.yml"):
        click.echo(f"    {shown}/{line}")


def set_flags(cluster: Cluster, *, short_timers: bool | None, flags: tuple[str, ...]) -> None:
    """Note flags for daemons in the cluster's settings. ClickException for a daemon that no cluster has."""
    noted = cluster.settings.flags
    if short_timers is not None:
        for daemon, preset in SHORT_TIMERS.items():
            rest = [flag for flag in noted.get(daemon, []) if flag not in preset]
            noted[daemon] = [*(preset if short_timers else ()), *rest]
    for text in flags:
        daemon, _, flag = text.partition("=")
        known = {"node", "hollow", *cluster.daemons()} - {name for name in cluster.daemons() if "containerd" in name}
        if daemon not in known:
            raise click.BadParameter(f"{daemon!r} is none of {', '.join(sorted(known))}", param_hint="--flag")
        if not flag:
            noted.pop(daemon, None)
            continue
        name = flag.partition("=")[0]
        noted[daemon] = [*(old for old in noted.get(daemon, []) if old.partition("=")[0] != name), flag]


def show_example(cluster: Cluster) -> None:
    """Submit the example pod, wait until it runs, and print it."""
    # Pods run as their namespace's default account, which the controller-manager makes a moment after the namespace.
    wharf(cluster, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
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
        if HOSTS.exists():
            from wharfinger.devtools import deployment

            deployment.down(HOSTS)
            say("the hosts are removed")
        kept = (LOCAL / "cluster.json").exists() and not purge
        local().down(purge=purge)
    say("down" + ("; .local is removed" if purge else "; ./dev up brings it back with its objects" if kept else ""))


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
    table = [("NAME", "PID", "LOG", "ADDRESSES")]
    for row in rows:
        log = os.path.relpath(row["log"], Path.cwd())
        table.append((row["name"], str(row["pid"] or "stopped"), log, ", ".join(row["addresses"]) or "-"))
    widths = [max(len(line[column]) for line in table) for column in range(3)]
    for line in table:
        click.echo("   ".join([*(f"{line[column]:<{widths[column]}}" for column in range(3)), line[3]]))


@main.command()
@click.argument("name")
def start(name: str) -> None:
    """Start one daemon (as in ./dev status) and wait until it is ready."""
    with errors_shown():
        cluster = local()
        cluster.check_name(name)
        if cluster.pid(name) is not None:
            say(f"{name} runs already")
            return
        cluster.prepare()
        cluster.start(name)
        if cluster.pid(APISERVER) is not None:
            cluster.wait_nodes_ready(only=name)


@main.command()
@click.argument("name")
@click.option("--kill", is_flag=True, help="With SIGKILL, as a crash would.")
def stop(name: str, kill: bool) -> None:
    """Stop one daemon (as in ./dev status); containers go on running."""
    with errors_shown():
        cluster = local()
        cluster.check_name(name)
        if cluster.pid(name) is None:
            say(f"{name} was not running")
        elif kill:
            cluster.kill(name)
            say(f"{name} killed")
        else:
            cluster.stop(name)
            say(f"{name} stopped")


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def test(arguments: tuple[str, ...]) -> None:
    """Run the tests, or those that ARGUMENTS (as pytest takes them) name; all of them on several workers."""
    sys.exit(subprocess.call([sys.executable, "-m", "pytest", *(arguments or PARALLEL)], cwd=ROOT))


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
    """Run benchmarks: api, http, sched, pod, memory, codec (default: all of them)."""
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
