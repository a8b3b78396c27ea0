"""``wharf wait``: until a condition, a field or the end of objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import click

from wharfinger.cli import selecting
from wharfinger.cli.durations import parse_duration
from wharfinger.cli.failures import CommandError
from wharfinger.cli.output import document_of
from wharfinger.cli.reporting import Reporter
from wharfinger.cli.session import Session, command
from wharfinger.cli.waiting import until, until_gone

Met = Callable[[Any | None], bool]


@command(name="wait")
@selecting.arguments()
@selecting.FILES
@selecting.RECURSIVE
@selecting.SELECTOR
@selecting.FIELD_SELECTOR
@selecting.ALL
@selecting.ALL_NAMESPACES
@click.option("--for", "goal", required=True, metavar="GOAL",
              help="create, delete, condition=NAME[=VALUE], jsonpath='{PATH}'[=VALUE].")  # fmt: skip
@click.option("--timeout", default="30s", show_default=True, metavar="DURATION",
              help="How long to wait for each; 0 looks once, less than 0 waits for a week.")  # fmt: skip
@click.option("-o", "--output", metavar="FORMAT", help="Print the object: yaml, json, name, jsonpath=…")
async def wait(session: Session, **options: Any) -> int:
    """Wait until objects are as you want them.

    \b
      wharf wait --for=condition=Ready pod/web --timeout=60s
      wharf wait --for=delete pod/web
      wharf wait --for=jsonpath='{.status.phase}'=Running pods -l app=web
    """
    goal: str = options["goal"]
    met = parse_goal(goal)
    limit = parse_duration(options["timeout"], flag="--timeout")
    seconds = 7 * 86400.0 if limit < 0 else max(limit, 0.5)
    reporter = Reporter(options["output"])
    async with session.client() as client:
        chosen = await selecting.choose(session, client, reporter, options, verb="wait")
        if not chosen and not reporter.failed:
            if goal.lower() == "delete":
                return 0
            raise CommandError("no matching resources found")
        await asyncio.gather(*(_wait(client, one, reporter, goal, met, seconds) for one in chosen))
    return reporter.finish()


async def _wait(client: Any, one: selecting.Chosen, reporter: Reporter, goal: str, met: Met, seconds: float) -> None:
    from wharfinger.api.errors import NotFoundError, ServiceUnavailableError, StatusError

    document = {"apiVersion": one.kind.api_version, "kind": one.kind.kind, "metadata": {"name": one.name}}
    word = goal.lower()
    try:
        if word == "delete":
            try:
                current = await client.resource(one.kind.message).get(one.name, namespace=one.namespace)
            except NotFoundError as error:
                reporter.status(error)
                return
            await until_gone(
                client, one.kind, one.name, namespace=one.namespace, uid=current.metadata.uid, timeout=seconds
            )  # fmt: skip
        else:
            if word != "create":
                # What is not there is said at once; only --for=create waits for it.
                await client.resource(one.kind.message).get(one.name, namespace=one.namespace)
            obj = await until(client, one.kind, one.name, namespace=one.namespace, met=met, timeout=seconds)
            document = document_of(obj) if obj is not None else document
    except TimeoutError:
        reporter.error(f"timed out waiting for the condition on {one.kind.group_resource}/{one.name}")
        return
    except _GoneError:
        reporter.error(f"{one.kind.group_resource}/{one.name} was deleted while waiting for {goal}")
        return
    except ServiceUnavailableError:
        raise
    except StatusError as error:
        reporter.status(error)
        return
    reporter.done(document, "condition met")


class _GoneError(Exception):
    """Raised when an object that was waited for is deleted."""


def parse_goal(goal: str) -> Met:
    """Read the value of ``--for``. CommandError for what it cannot be."""
    word, equals, rest = goal.partition("=")
    kind = word.strip().lower()
    if kind in ("delete", "create") and not equals:
        return lambda obj: (obj is None) == (kind == "delete")
    if kind == "condition" and rest:
        name, _, value = rest.partition("=")
        return _living(lambda obj: _condition(obj, name, value or "True"))
    if kind == "jsonpath" and rest:
        return _living(_jsonpath(rest))
    raise CommandError(f"unrecognized condition: {goal!r}; create, delete, condition=… and jsonpath=… are known")


def _living(test: Callable[[Any], bool]) -> Met:
    def met(obj: Any | None) -> bool:
        if obj is None:
            raise _GoneError
        return test(obj)

    return met


def _condition(obj: Any, name: str, value: str) -> bool:
    status = getattr(obj, "status", None)
    for condition in getattr(status, "conditions", ()):
        if condition.type.lower() == name.lower():
            # A condition that was seen for an older spec says nothing about this one.
            observed = getattr(condition, "observedGeneration", 0) or getattr(status, "observedGeneration", 0)
            if observed and observed < obj.metadata.generation:
                return False
            return str(condition.status).lower() == value.lower()
    return False


def _jsonpath(text: str) -> Callable[[Any], bool]:
    from wharfinger.api.jsonpath import JSONPathError, Template, go_number, relaxed

    path, value = text, None
    if text.startswith("{"):
        end = text.rfind("}")
        path, rest = text[: end + 1], text[end + 1 :]
        if rest and not rest.startswith("="):
            raise CommandError(f"jsonpath wait format must be --for=jsonpath='{{PATH}}'=VALUE, not {text!r}")
        value = rest[1:] if rest else None
    elif "=" in text:
        path, _, value = text.partition("=")
    try:
        template = Template(relaxed(path))
    except JSONPathError as error:
        raise CommandError(f"error parsing jsonpath {path}: {error}") from error

    def test(obj: Any) -> bool:
        try:
            found = template.values(document_of(obj))
        except JSONPathError:
            return False
        if value is None:
            return bool(found)
        if len(found) != 1 or isinstance(found[0], dict | list):
            return False
        one = found[0]
        shown = one if isinstance(one, str) else str(one).lower() if isinstance(one, bool) else go_number(one or 0)
        return bool(shown == value.strip("'\""))

    return test
