"""``wharf run``: a pod from an image, at once; with ``-i`` or ``--attach`` joined until it ends."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from wharfinger.cli import remote
from wharfinger.cli.create import FIELD_MANAGER
from wharfinger.cli.durations import parse_duration
from wharfinger.cli.exec import Streams, join
from wharfinger.cli.failures import CommandError, complain
from wharfinger.cli.output import document_of_raw
from wharfinger.cli.reporting import DRY_RUN, OUTPUT, Reporter, needs
from wharfinger.cli.session import Session, command
from wharfinger.cli.waiting import until, until_gone

if TYPE_CHECKING:
    from wharfinger.api.types import core
    from wharfinger.client import Client


@command(name="run")
@click.argument("name")
@click.argument("words", nargs=-1, metavar="[-- ARGUMENT…]")
@click.option("--image", default="", metavar="IMAGE", help="What to run.")
@click.option("--restart", type=click.Choice(["Always", "OnFailure", "Never"]), default="Always", show_default=True,
              help="When the container is started again.")  # fmt: skip
@click.option("--command", "as_command", is_flag=True, help="The words replace the image's command.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="An environment variable.")
@click.option("-l", "--labels", default="", metavar="KEY=VALUE,…", help="Instead of run=NAME.")
@click.option("--annotations", multiple=True, metavar="KEY=VALUE", help="An annotation.")
@click.option("--port", type=click.IntRange(1, 65535), help="The port that the container listens on.")
@click.option("--image-pull-policy", type=click.Choice(["Always", "IfNotPresent", "Never"]), help="When to pull.")
@click.option("--privileged", is_flag=True, help="As root of the node.")
@click.option("-i", "--stdin", is_flag=True, help="Keep standard input open, and join it.")
@click.option("-t", "--tty", is_flag=True, help="With a terminal.")
@click.option("--attach", is_flag=True, help="Join the container (on with -i).")
@click.option("--rm", is_flag=True, help="Delete the pod when it has ended.")
@click.option("-q", "--quiet", is_flag=True, help="Print only what the process prints.")
@click.option("--pod-running-timeout", default="1m0s", show_default=True, metavar="DURATION",
              help="How long to wait until it runs.")  # fmt: skip
@DRY_RUN
@OUTPUT
@FIELD_MANAGER
async def run(session: Session, **options: Any) -> int:
    """Run a pod.

    \b
      wharf run web --image=nginx --port=80
      wharf run -it --rm shell --image=busybox --restart=Never -- sh
      wharf run hello --image=busybox --restart=Never --command -- echo hello
    """
    attaching = options["attach"] or options["stdin"]
    needs(not options["rm"] or attaching, "--rm should only be used for attached containers")
    needs(
        not options["tty"] or options["stdin"] or not attaching,
        "-i/--stdin is required for containers with -t/--tty=true",
    )
    needs(
        not attaching or options["dry_run"] == "none", "--dry-run=client|server can't be used with attached containers"
    )
    document = document_of(options)
    reporter = Reporter(options["output"], dry_run=options["dry_run"])
    if options["dry_run"] == "client":
        reporter.done(document, "created")
        return reporter.finish()
    async with session.client() as client:
        pod = await _create(client, session, document, options, reporter)
        if not attaching:
            return reporter.finish()
        try:
            return await _attached(client, pod, options)
        finally:
            if options["rm"]:
                await _remove(client, pod, quiet=options["quiet"])


def document_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return the pod that the flags stand for. CommandError for flags that cannot be read."""
    name = options["name"]
    needs(bool(options["image"]), "--image is required")
    container: dict[str, Any] = {"name": name, "image": options["image"]}
    words = list(options["words"])
    if words:
        container["command" if options["as_command"] else "args"] = words
    needs(bool(words) or not options["as_command"], "--command needs a command after --")
    if options["variables"]:
        container["env"] = [
            {"name": key, "value": value} for key, value in _pairs(options["variables"], "--env").items()
        ]
    if options["port"]:
        container["ports"] = [{"containerPort": options["port"]}]
    if options["image_pull_policy"]:
        container["imagePullPolicy"] = options["image_pull_policy"]
    if options["privileged"]:
        container["securityContext"] = {"privileged": True}
    if options["stdin"]:
        container |= {"stdin": True, "stdinOnce": True}
    if options["tty"]:
        container["tty"] = True
    metadata: dict[str, Any] = {
        "name": name,
        "labels": _pairs(options["labels"].split(","), "--labels") if options["labels"] else {"run": name},
    }
    if options["annotations"]:
        metadata["annotations"] = _pairs(options["annotations"], "--annotations")
    spec = {"containers": [container], "restartPolicy": options["restart"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _pairs(texts: Any, flag: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        needs(bool(key and equals), f"{flag}: {text!r}: expected NAME=VALUE")
        found[key] = value
    return found


async def _create(
    client: Client, session: Session, document: dict[str, Any], options: dict[str, Any], reporter: Reporter
) -> core.Pod:
    import orjson

    from wharfinger.api import kinds
    from wharfinger.api.types import core

    answer = await client.raw(kinds.of(core.Pod)).create(
        orjson.dumps(document), namespace=session.namespace, dry_run=reporter.server_dry_run,
        field_manager=options["field_manager"] or "kubectl-run", field_validation="Strict",
    )  # fmt: skip
    reporter.warnings(answer.warnings)
    if not options["quiet"] and not (options["attach"] or options["stdin"]):
        reporter.done(document_of_raw(answer), "created")
    return core.Pod.FromString(answer.data)


async def _attached(client: Client, pod: core.Pod, options: dict[str, Any]) -> int:
    """Join the pod's container; returns its exit code, with ``--restart=Always`` that of the stream."""
    from wharfinger.api import kinds
    from wharfinger.api.errors import StatusError
    from wharfinger.api.types import core

    kind = kinds.of(core.Pod)
    namespace, name, container = pod.metadata.namespace, pod.metadata.name, pod.spec.containers[0].name
    seconds = parse_duration(options["pod_running_timeout"], flag="--pod-running-timeout")

    def started(now: core.Pod | None) -> bool:
        return now is None or now.status.phase in ("Running", "Succeeded", "Failed")

    def ended(now: core.Pod | None) -> bool:
        return now is None or now.status.phase in ("Succeeded", "Failed")

    try:
        current = await until(client, kind, name, namespace=namespace, met=started, timeout=seconds)
    except TimeoutError as error:
        raise CommandError(
            f"pod/{name} does not run: timed out waiting; `wharf describe pod {name}` says why"
        ) from error
    if current is None:
        raise CommandError(f"pod/{name} was deleted before it ran")
    streams = Streams.of(stdin=options["stdin"], tty=options["tty"], quiet=options["quiet"])
    if not options["stdin"]:
        # Only looking: the log has all of it, also what was said before we came.
        await _print_log(client, current, container)
    elif current.status.phase == "Running":
        try:
            await join(client, current, container, streams)
        except (StatusError, CommandError) as error:
            if not options["quiet"]:
                complain(f"warning: couldn't attach to pod/{name}, falling back to streaming logs: {error}")
            await _print_log(client, current, container)
    else:  # it was faster than we
        await _print_log(client, current, container)
    if options["restart"] == "Always":
        return 0
    final = await until(client, kind, name, namespace=namespace, met=ended)
    if final is None:
        raise CommandError(f"pod/{name} was deleted before it ended")
    codes = [one.state.terminated.exitCode for one in final.status.containerStatuses if one.name == container]
    return remote.say_exit(codes[0] if codes else int(final.status.phase == "Failed"))


async def _print_log(client: Client, pod: core.Pod, container: str) -> None:
    from wharfinger.proto.native import streams_v1_pb2

    metadata = pod.metadata
    request = streams_v1_pb2.LogRequest(
        namespace=metadata.namespace, pod=metadata.name, uid=metadata.uid, container=container, follow=True
    )
    sys.stdout.flush()
    async for chunk in client.log(request):
        remote.write_out(1, chunk)


async def _remove(client: Client, pod: core.Pod, *, quiet: bool) -> None:
    from wharfinger.api import kinds
    from wharfinger.api.errors import NotFoundError
    from wharfinger.api.types import core

    metadata = pod.metadata
    try:
        await client.resource(core.Pod).delete(metadata.name, namespace=metadata.namespace, uid=metadata.uid)
        await until_gone(client, kinds.of(core.Pod), metadata.name, namespace=metadata.namespace, uid=metadata.uid)
    except NotFoundError:
        return
    if not quiet:
        complain(f'pod "{metadata.name}" deleted')
