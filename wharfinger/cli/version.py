"""``wharf version``, ``wharf api-resources``, ``wharf api-versions``, ``wharf cluster-info``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from wharfinger.cli.columns import print_columns
from wharfinger.cli.failures import UnreachableError
from wharfinger.cli.session import Session, command
from wharfinger.version import git_version


@command(name="version")
@click.option("--client", "client_only", is_flag=True, help="Do not ask the server.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]))
async def version(session: Session, *, client_only: bool, output: str | None) -> None:
    """Show the versions of wharf and of the server."""
    from wharfinger.cli.output import dump_json, dump_yaml

    found: dict[str, Any] = {"clientVersion": {"gitVersion": git_version(), "major": "1", "minor": "36"}}
    if not client_only:
        async with session.client() as client:
            info = await client.version()
        found["serverVersion"] = {
            "gitVersion": info.git_version, "major": info.major, "minor": info.minor, "platform": info.platform,
        }  # fmt: skip
    if output:
        sys.stdout.write(dump_json(found) if output == "json" else dump_yaml(found))
        return
    sys.stdout.write(f"Client Version: {found['clientVersion']['gitVersion']}\n")
    if "serverVersion" in found:
        sys.stdout.write(f"Server Version: {found['serverVersion']['gitVersion']}\n")


@command(name="api-resources")
@click.option("-o", "--output", type=click.Choice(["wide", "name"]))
@click.option("--namespaced", type=bool, default=None, help="Only those that live in namespaces (or not: false).")
@click.option("--api-group", default=None, help="Only those of a group ('' is the core group).")
@click.option("--verbs", default="", help="Only those that know all of these verbs (a,b).")
@click.option("--categories", default="", help="Only those of all of these categories (a,b).")
@click.option("--sort-by", type=click.Choice(["name", "kind"]), default=None)
@click.option("--no-headers", is_flag=True, help="Without the line of headers.")
async def api_resources(
    session: Session, *, output: str | None, namespaced: bool | None, api_group: str | None, verbs: str,
    categories: str, sort_by: str | None, no_headers: bool,
) -> None:  # fmt: skip
    """Show which kinds the server knows."""
    async with session.client() as client:
        resources = [one for one in await client.discover() if one.resource]
    wanted = [
        one
        for one in resources
        if (namespaced is None or one.namespaced == namespaced)
        and (api_group is None or one.group == api_group)
        and set(filter(None, verbs.split(","))) <= set(one.verbs)
        and set(filter(None, categories.split(","))) <= set(one.categories)
    ]
    wanted.sort(key=lambda one: (one.group, one.resource))
    if sort_by:
        wanted.sort(key=lambda one: one.resource if sort_by == "name" else one.kind)
    if output == "name":
        for one in wanted:
            sys.stdout.write(f"{one.resource}.{one.group}\n" if one.group else f"{one.resource}\n")
        return
    header = ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]
    rows = [
        [
            one.resource, ",".join(one.short_names), f"{one.group}/{one.version}" if one.group else one.version,
            "true" if one.namespaced else "false", one.kind,
        ]
        for one in wanted
    ]  # fmt: skip
    if output == "wide":
        header += ["VERBS", "CATEGORIES"]
        rows = [[*row, ",".join(one.verbs), ",".join(one.categories)] for row, one in zip(rows, wanted, strict=True)]
    print_columns(None if no_headers else header, rows)


@command(name="api-versions")
async def api_versions(session: Session) -> None:
    """Show which API versions the server knows, as "group/version"."""
    async with session.client() as client:
        resources: Sequence[Any] = await client.discover()
    for name in sorted({f"{one.group}/{one.version}" if one.group else one.version for one in resources}):
        sys.stdout.write(name + "\n")


@command(name="cluster-info")
async def cluster_info(session: Session) -> None:
    """Show where the control plane is, and whether each of its addresses answers."""
    from dataclasses import replace

    from wharfinger.api.errors import ServiceUnavailableError, StatusError
    from wharfinger.client import Client

    config = session.config
    answered = False
    for endpoint in config.endpoints:
        async with Client(replace(config, endpoints=[endpoint])) as client:
            try:
                info = await client.version()
            except ServiceUnavailableError as error:
                sys.stdout.write(f"Wharfinger control plane at {endpoint} does not answer: {error.message}\n")
                continue
            except StatusError as error:
                sys.stdout.write(f"Wharfinger control plane at {endpoint} refuses: {error.message}\n")
                continue
        answered = True
        sys.stdout.write(f"Wharfinger control plane ({info.git_version}) is running at {endpoint}\n")
    if config.server:
        sys.stdout.write(f"Kubernetes API (HTTPS) for other clients: {config.server}\n")
    if not answered:
        raise UnreachableError(f"none of {', '.join(config.endpoints)} answers")
