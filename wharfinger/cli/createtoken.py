"""``wharf create token ACCOUNT``: a token of a service account, as kubectl makes it.

The token alone goes to stdout, so that a script can take it; ``-o`` prints the whole TokenRequest instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from wharfinger.cli.durations import parse_duration
from wharfinger.cli.failures import CommandError
from wharfinger.cli.output import document_of_raw
from wharfinger.cli.reporting import Reporter, needs
from wharfinger.cli.session import Session

_BINDABLE = {"pod": "Pod", "secret": "Secret", "node": "Node"}


async def create_token(session: Session, arguments: Sequence[str], flags: Mapping[str, Any]) -> int:
    """Ask for the token and print it; return the exit code. Raises CommandError, StatusError."""
    from wharfinger.api import kinds
    from wharfinger.api.types import core

    needs(len(arguments) == 1, f"exactly one NAME of a service account is required, received {len(arguments)}")
    needs(flags["dry_run"] == "none", "a token cannot be made with --dry-run: it would be no token")
    spec = token_spec(flags)
    reporter = Reporter(flags["output"])
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    async with session.client() as client:
        raw = await client.raw(kinds.of(core.ServiceAccount)).create(
            json.dumps(asked).encode(), namespace=session.namespace, name=arguments[0], subresource="token"
        )
    reporter.warnings(raw.warnings)
    document = document_of_raw(raw)
    token = document.get("status", {}).get("token")
    needs(bool(token), "failed to create token: no token in server response")
    if reporter.output.format:
        reporter.done(document, "created")
    else:
        click.echo(token)
    return reporter.finish()


def token_spec(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the TokenRequest's spec that the flags ask for. CommandError for flags that do not fit together."""
    spec: dict[str, Any] = {}
    audiences: Sequence[str] = flags["audiences"]
    if audiences:
        needs(all(audiences), "--audience must not be an empty string")
        spec["audiences"] = list(audiences)
    if flags["duration"]:
        seconds = parse_duration(flags["duration"], flag="--duration")
        needs(seconds >= 0, "--duration must be greater than or equal to 0")
        needs(seconds == int(seconds), "requested duration cannot be expressed in units less than seconds")
        if seconds:
            spec["expirationSeconds"] = int(seconds)
    kind, name, uid = flags["bound_object_kind"], flags["bound_object_name"], flags["bound_object_uid"]
    if not kind:
        needs(not name, "--bound-object-name can only be set if --bound-object-kind is provided")
        needs(not uid, "--bound-object-uid can only be set if --bound-object-kind is provided")
        return spec
    if kind.lower() not in _BINDABLE:
        raise CommandError(f"supported --bound-object-kind values are {', '.join(sorted(_BINDABLE.values()))}")
    needs(bool(name), "--bound-object-name must be provided if --bound-object-kind is provided")
    spec["boundObjectRef"] = {"apiVersion": "v1", "kind": _BINDABLE[kind.lower()], "name": name}
    if uid:
        spec["boundObjectRef"]["uid"] = uid
    return spec
