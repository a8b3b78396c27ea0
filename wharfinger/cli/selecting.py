"""Which objects a changing command is for: names, files, a label selector, or all of a kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from wharfinger.cli.complete import complete_targets
from wharfinger.cli.failures import CommandError
from wharfinger.cli.reporting import Reporter, needs
from wharfinger.cli.session import Session
from wharfinger.cli.targets import parse_targets

if TYPE_CHECKING:
    from wharfinger.api.kinds import Kind
    from wharfinger.client import Client


@dataclass(frozen=True)
class Chosen:
    """One object, by its address."""

    kind: Kind
    name: str
    namespace: str
    """Empty for cluster-wide kinds."""


FILES = click.option("-f", "--filename", "files", multiple=True, metavar="FILE", help="A file, a folder, or - (stdin).")
RECURSIVE = click.option("-R", "--recursive", is_flag=True, help="With a folder: also the folders below.")
SELECTOR = click.option("-l", "--selector", default="", metavar="SELECTOR", help="All that the label selector matches.")
FIELD_SELECTOR = click.option(
    "--field-selector", default="", metavar="SELECTOR", help="All that the field selector matches."
)
ALL = click.option("--all", "everything", is_flag=True, help="All of the kind in the namespace.")
ALL_NAMESPACES = click.option("-A", "--all-namespaces", is_flag=True, help="In all namespaces.")


def arguments(metavar: str = "(TYPE NAME | TYPE/NAME)") -> Callable[[Any], Any]:
    """Return the argument that takes kinds and names, completed from the server."""
    return click.argument("arguments", nargs=-1, metavar=metavar, shell_complete=complete_targets)


async def choose(
    session: Session, client: Client, reporter: Reporter, options: dict[str, Any], *, verb: str
) -> list[Chosen]:
    """Find the objects that a command's options name, before the first of them is touched.

    Reads ``arguments``, ``files``, ``recursive``, ``selector``, ``field_selector``, ``everything`` and
    ``all_namespaces`` of `options`, as far as the command has them.
    """
    given: Sequence[str] = options.get("arguments") or ()
    if options.get("files"):
        needs(not given, "cannot use both -f and names of objects")
        return from_files(session, reporter, options["files"], recursive=options.get("recursive", False))
    selector, fields = options.get("selector") or "", options.get("field_selector") or ""
    everything, everywhere = bool(options.get("everything")), bool(options.get("all_namespaces"))
    targets = parse_targets(given, verb=verb)
    named = any(target.names for target in targets)
    needs(not (named and (selector or fields)), "a name cannot be provided together with a selector")
    needs(not (named and everything), "name cannot be provided when --all is specified")
    needs(
        named or bool(selector or fields) or everything, "resource(s) were provided, but no name was specified"
    )  # fmt: skip
    needs(not (named and everywhere), "a resource cannot be retrieved by name across all namespaces")
    chosen: list[Chosen] = []
    for target in targets:
        kind = target.kind
        namespace = session.namespace if kind.namespaced else ""
        if target.names:
            chosen += [Chosen(kind, name, namespace) for name in target.names]
            continue
        listed = await client.resource(kind.message).list(
            namespace="" if everywhere else namespace, label_selector=selector, field_selector=fields
        )
        items: list[Any] = listed.items
        chosen += [Chosen(kind, obj.metadata.name, obj.metadata.namespace) for obj in items]
    return chosen


def from_files(session: Session, reporter: Reporter, files: Sequence[str], *, recursive: bool) -> list[Chosen]:
    """Return the objects that files name; what cannot be read is reported and left out."""
    from wharfinger.cli.manifests import Broken, read_all

    chosen = []
    for manifest in read_all(files, recursive=recursive):
        if isinstance(manifest, Broken):
            reporter.error(manifest.reason)
            continue
        try:
            namespace = manifest.namespace(session.namespace, explicit=session.explicit_namespace)
            if not manifest.name:
                raise CommandError("resource name may not be empty")
            chosen.append(Chosen(manifest.kind, manifest.name, namespace))
        except CommandError as error:
            reporter.error(str(error))
    return chosen
