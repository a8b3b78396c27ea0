"""``wharf get``: objects as tables or documents, once or as they change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from wharfinger.cli.complete import complete_targets
from wharfinger.cli.failures import CommandError, SilentExit, complain, status_line
from wharfinger.cli.output import DocumentPrinter, Output, document_of, parse_output
from wharfinger.cli.session import Session, command
from wharfinger.cli.tableprinter import TableOptions, TablePrinter
from wharfinger.cli.targets import Target, parse_targets

if TYPE_CHECKING:
    from wharfinger.api.kinds import Kind
    from wharfinger.client import Client


@dataclass
class Selection:
    """Which objects of the targets are meant."""

    namespace: str
    """Empty: all."""
    label_selector: str = ""
    field_selector: str = ""
    chunk_size: int = 0
    subresource: str = ""
    ignore_not_found: bool = False

    def namespace_for(self, kind: Kind) -> str:
        """Return the namespace to ask in; empty for cluster-wide kinds."""
        return self.namespace if kind.namespaced else ""


@command(name="get", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "arguments", nargs=-1, metavar="(TYPE[,TYPE] [NAME...] | TYPE/NAME...)", shell_complete=complete_targets
)
@click.option("-f", "--filename", "files", multiple=True, metavar="FILE", help="Get the objects that a file names.")
@click.option("-R", "--recursive", is_flag=True, help="With -f: also the folders below.")
@click.option("-A", "--all-namespaces", is_flag=True, help="In all namespaces.")
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="Only what the label selector matches.")
@click.option("--field-selector", default="", metavar="SELECTOR", help="Only what the field selector matches.")
@click.option("-o", "--output", metavar="FORMAT", help="wide, yaml, json, name, jsonpath=…, custom-columns=…, …-file=…")
@click.option("-w", "--watch", is_flag=True, help="Go on with changes as they come.")
@click.option("--watch-only", is_flag=True, help="Only changes, without what is there already.")
@click.option("--output-watch-events", is_flag=True, help="With --watch: say what happened (ADDED, …).")
@click.option("-L", "--label-columns", multiple=True, metavar="LABEL", help="Show a label as a column.")
@click.option("--show-labels", is_flag=True, help="Show all labels in a last column.")
@click.option("--show-kind", is_flag=True, help="Show names as kind/name.")
@click.option("--show-managed-fields", is_flag=True, help="With -o yaml and json: with managedFields.")
@click.option("--sort-by", metavar="PATH", help="Sort by a field, such as .metadata.creationTimestamp.")
@click.option("--no-headers", is_flag=True, help="Without the line of headers.")
@click.option("--ignore-not-found", is_flag=True, help="What is not there is no error.")
@click.option("--chunk-size", type=click.IntRange(0), default=0, help="Get lists in parts of this size (0: at once).")
@click.option("--subresource", default="", metavar="NAME", help="Get a subresource (status, scale).")
async def get(session: Session, **options: Any) -> None:
    """Show objects.

    \b
      wharf get pods                        all pods of the namespace
      wharf get pods,nodes -A -o wide       several kinds, everywhere, all columns
      wharf get pod/web -o yaml             one object, whole
      wharf get pods -w                     go on with changes
      wharf get po -o jsonpath='{.items[*].metadata.name}'
    """
    output = parse_output(options["output"])
    everywhere = options["all_namespaces"]
    selection = Selection(
        "" if everywhere else session.namespace,
        label_selector=options["selector"],
        field_selector=options["field_selector"],
        chunk_size=options["chunk_size"],
        subresource=options["subresource"],
        ignore_not_found=options["ignore_not_found"],
    )
    if options["files"]:
        if options["arguments"]:
            raise CommandError("cannot use both -f and names of objects")
        targets, selection.namespace = _from_files(session, options["files"], recursive=options["recursive"])
    else:
        targets = parse_targets(options["arguments"], verb="get")
    _check(targets, options, everywhere=everywhere)
    run = _Run(session, output, options, selection)
    async with session.client() as client:
        if options["watch"] or options["watch_only"]:
            await run.watch(client, targets)
        else:
            await run.show(client, targets)


def _check(targets: Sequence[Target], options: dict[str, Any], *, everywhere: bool) -> None:
    named = any(target.names for target in targets)
    if named and (options["selector"] or options["field_selector"]):
        raise CommandError("a name cannot be provided together with a selector")
    if named and everywhere:
        raise CommandError("a resource cannot be retrieved by name across all namespaces")
    if options["subresource"] and not named:
        raise CommandError("--subresource needs the name of an object")
    if options["watch"] or options["watch_only"]:
        if len(targets) != 1:
            raise CommandError("you may only specify a single resource type")
        if len(targets[0].names) > 1:
            raise CommandError("watch is only supported on individual resources and resource collections")
        if options["sort_by"]:
            complain("warning: --watch requested, --sort-by will be ignored for watch events received")


def _from_files(session: Session, files: Sequence[str], *, recursive: bool) -> tuple[list[Target], str]:
    from wharfinger.cli.manifests import Broken, read_all

    targets: list[Target] = []
    namespaces = set()
    for manifest in read_all(files, recursive=recursive):
        if isinstance(manifest, Broken):
            raise CommandError(manifest.reason)
        targets.append(Target(manifest.kind, (manifest.name,)))
        if manifest.kind.namespaced:
            namespaces.add(manifest.namespace(session.namespace, explicit=session.explicit_namespace))
    if len(namespaces) > 1:
        raise CommandError(f"the files name objects of several namespaces ({', '.join(sorted(namespaces))})")
    return targets, namespaces.pop() if namespaces else session.namespace


class _Run:
    """One ``get``: what to print, and what has gone wrong so far."""

    def __init__(self, session: Session, output: Output, options: dict[str, Any], selection: Selection) -> None:
        self.session = session
        self.output = output
        self.options = options
        self.selection = selection
        self.failed = False

    def _table_options(self, *, show_kind: bool) -> TableOptions:
        options = self.options
        return TableOptions(
            wide=self.output.wide,
            headers=not options["no_headers"],
            namespaces=options["all_namespaces"],
            show_kind=show_kind or options["show_kind"],
            show_labels=options["show_labels"],
            label_columns=[name for text in options["label_columns"] for name in text.split(",")],
            event_column=options["output_watch_events"],
        )

    def _document(self, obj: Any) -> dict[str, Any]:
        return document_of(obj, managed_fields=self.options["show_managed_fields"])

    # --- once --------------------------------------------------------------------------------------------------------

    async def show(self, client: Client, targets: Sequence[Target]) -> None:
        """Print what is there, then the errors; SilentExit when there were any."""
        found: list[tuple[Kind, list[Any]]] = []
        single = len(targets) == 1 and len(targets[0].names) == 1
        for target in targets:
            found.append((target.kind, await self._fetch(client, target)))
        if self.options["sort_by"]:
            from wharfinger.cli.sorting import sort_by

            found = [
                (kind, sort_by(self.options["sort_by"], [(self._document(obj), obj) for obj in objects]))
                for kind, objects in found
            ]  # fmt: skip
        if self.output.table:
            self._print_tables(found)
        else:
            printer = DocumentPrinter(self.output, headers=not self.options["no_headers"])
            documents = [self._document(obj) for _, objects in found for obj in objects]
            if single:
                if documents:
                    printer.print(documents[0])
            else:
                printer.print_list(documents)
        if self.failed:
            raise SilentExit

    async def _fetch(self, client: Client, target: Target) -> list[Any]:
        from wharfinger.api.errors import NotFoundError, StatusError

        resource: Any = client.resource(target.kind.message)
        selection = self.selection
        namespace = selection.namespace_for(target.kind)
        if not target.names:
            return await list_objects(resource, namespace=namespace, selection=selection)
        objects: list[Any] = []
        for name in target.names:
            try:
                objects.append(await resource.get(name, namespace=namespace, subresource=selection.subresource))
            except NotFoundError as error:
                if not selection.ignore_not_found:
                    self._complain(error)
            except StatusError as error:
                if len(target.names) == 1:
                    raise
                self._complain(error)
        return objects

    def _complain(self, error: Any) -> None:
        self.failed = True
        complain(status_line(error))

    def _print_tables(self, found: list[tuple[Kind, list[Any]]]) -> None:
        several = len(found) > 1
        printed = False
        for kind, objects in found:
            if not objects:
                continue
            if printed:
                sys.stdout.write("\n")
            TablePrinter(kind, self._table_options(show_kind=several)).print(objects)
            printed = True
        if not printed and not self.failed and not self.selection.ignore_not_found:
            complain(self._nothing([kind for kind, _ in found]))

    def _nothing(self, found: Sequence[Kind]) -> str:
        if self.selection.namespace and any(kind.namespaced for kind in found):
            return f"No resources found in {self.selection.namespace} namespace."
        return "No resources found"

    # --- as it changes -----------------------------------------------------------------------------------------------

    async def watch(self, client: Client, targets: Sequence[Target]) -> None:
        """Print what is there and then every change, until interrupted."""
        from wharfinger.cli.watching import changes

        target = targets[0]
        selection = self.selection
        resource: Any = client.resource(target.kind.message)
        namespace = selection.namespace_for(target.kind)
        field_selector = selection.field_selector
        if target.names:
            # Says NotFound at once, as a watch would wait for ever.
            await resource.get(target.names[0], namespace=namespace)
            field_selector = f"metadata.name={target.names[0]}"
        emit = self._emitter(target.kind)
        first = not self.options["watch_only"]
        async for batch in changes(
            resource, namespace=namespace, label_selector=selection.label_selector, field_selector=field_selector
        ):
            if batch.initial and not first:
                continue
            emit([event for event in batch.events if event.type != "BOOKMARK"])
            sys.stdout.flush()

    def _emitter(self, kind: Kind) -> Any:
        if self.output.table:
            table = TablePrinter(kind, self._table_options(show_kind=False))

            def rows(events: Sequence[Any]) -> None:
                table.print([event.object for event in events], [event.type for event in events])

            return rows
        printer = DocumentPrinter(self.output, headers=not self.options["no_headers"])

        def documents(events: Sequence[Any]) -> None:
            for event in events:
                document = self._document(event.object)
                if self.options["output_watch_events"]:
                    document = {"type": event.type, "object": document}
                printer.print(document)

        return documents


async def list_objects(resource: Any, *, namespace: str, selection: Selection) -> list[Any]:
    """Return all objects of a list, in parts if so asked."""
    objects: list[Any] = []
    following = ""
    while True:
        part = await resource.list(
            namespace=namespace,
            label_selector=selection.label_selector,
            field_selector=selection.field_selector,
            limit=selection.chunk_size,
            continue_=following,
        )
        objects += part.items
        following = part.continue_
        if not following:
            return objects
