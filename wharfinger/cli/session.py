"""What every command starts from: the shared flags, the kubeconfig, the namespace, a client, and one event loop.

The shared flags may stand before or after the command's name, as with kubectl, so each command takes them too;
:func:`command` adds them and hands the merged result to the command as a :class:`Session`. Commands are coroutines,
run by one ``asyncio.run``.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wharfinger.cli import customkinds
from wharfinger.cli.failures import CommandError

if TYPE_CHECKING:
    from wharfinger.client import Client, ClientConfig

F = TypeVar("F", bound=Callable[..., Any])

SHARED = (
    "kubeconfig", "context", "cluster", "user", "namespace", "server", "token", "as_user", "as_group", "as_uid",
)  # fmt: skip
_FLAGS = "(command line)"
"""Name of the kubeconfig entries that flags stand for."""
_NO_CHECKOUT = ", or stand in a checkout whose ./dev up has made a cluster"
LOCAL_KUBECONFIG = Path(".local") / "kubeconfig"
"""Where ``./dev up`` puts the kubeconfig of a development cluster, below the checkout."""


class Session:
    """One run of the command line."""

    def __init__(self, overrides: Mapping[str, Any]) -> None:
        self.overrides = overrides

    # --- kubeconfig --------------------------------------------------------------------------------------------------

    @cached_property
    def kubeconfig(self) -> str | None:
        """The kubeconfig file to use, or None for client-go's rules (KUBECONFIG, ``~/.kube/config``).

        Without a flag and KUBECONFIG, that of the development cluster in whose checkout one stands.
        """
        given: str | None = self.overrides.get("kubeconfig")
        if given or os.environ.get("KUBECONFIG"):
            return given
        here = Path.cwd()
        for folder in (here, *here.parents):
            if (folder / LOCAL_KUBECONFIG).is_file():
                return str(folder / LOCAL_KUBECONFIG)
        return None

    @cached_property
    def document(self) -> dict[str, Any]:
        """The merged kubeconfig. CommandError when there is none or it cannot be read."""
        from wharfinger.client.config import ConfigError, load_document

        try:
            return load_document(self.kubeconfig)
        except ConfigError as error:
            hint = "" if self.kubeconfig or os.environ.get("KUBECONFIG") else _NO_CHECKOUT
            raise CommandError(f"{error}{hint}") from error

    @cached_property
    def config(self) -> ClientConfig:
        """Endpoints and credentials, with the flags applied."""
        from wharfinger.client.config import ConfigError, Impersonation, from_document

        document = dict(self.document)
        name = self.overrides.get("context") or document.get("current-context") or ""
        parts = {key: self.overrides[key] for key in ("cluster", "user") if self.overrides.get(key)}
        if token := self.overrides.get("token"):
            # A token on the command line stands in the place of the user, and is for the port that takes tokens.
            document["users"] = [{"name": _FLAGS, "user": {"token": token}}, *document["users"]]
            parts["user"] = _FLAGS
        if parts:
            entry: dict[str, Any] = next((one for one in document["contexts"] if one.get("name") == name), {})
            made = {"name": _FLAGS, "context": {**(entry.get("context") or {}), **parts}}
            document["contexts"], name = [made, *document["contexts"]], _FLAGS
        try:
            config = from_document(document, name or None)
        except ConfigError as error:
            raise CommandError(str(error)) from error
        if server := self.overrides.get("server"):
            config = replace(config, endpoints=[_grpc_address(server)], server=server)
        if any(self.overrides.get(name) for name in ("as_user", "as_group", "as_uid")):
            if not self.overrides.get("as_user"):
                raise CommandError("--as-group and --as-uid need --as: a group or uid alone is nobody")
            acting_as = Impersonation(
                self.overrides["as_user"], self.overrides.get("as_group") or (), self.overrides.get("as_uid") or ""
            )
            config = replace(config, acting_as=acting_as)
        return config

    @property
    def namespace(self) -> str:
        """The namespace of this request: the flag, else the context's, else ``default``."""
        return self.overrides.get("namespace") or self.config.namespace or "default"

    @property
    def explicit_namespace(self) -> str:
        """The namespace that the flag gives; empty without it."""
        return str(self.overrides.get("namespace") or "")

    def client(self) -> Client:
        """Return a client; use as ``async with session.client() as client``."""
        from wharfinger.client import Client

        return Client(self.config)


def _grpc_address(server: str) -> str:
    for scheme in ("grpcs://", "grpc://"):
        server = server.removeprefix(scheme)
    if "://" in server:
        raise CommandError(f"--server {server}: wharf speaks gRPC; give host:port of the apiserver's gRPC port (6444)")
    return server.rstrip("/")


_OPTIONS = (
    click.option("--kubeconfig", metavar="FILE", help="Path to the kubeconfig file.", hidden=True),
    click.option("--context", metavar="NAME", help="The kubeconfig context to use.", hidden=True),
    click.option("--cluster", metavar="NAME", help="The kubeconfig cluster to use.", hidden=True),
    click.option("--user", metavar="NAME", help="The kubeconfig user to use.", hidden=True),
    click.option("-n", "--namespace", metavar="NAMESPACE", help="The namespace of this request."),
    click.option("-s", "--server", metavar="HOST:PORT", help="The apiserver's gRPC address.", hidden=True),
    click.option("--token", metavar="TOKEN", help="Bearer token for the apiserver.", hidden=True),
    click.option("--as", "as_user", metavar="USER", help="Act as another user, if you may.", hidden=True),
    click.option("--as-group", multiple=True, metavar="GROUP", help="A group to act as a member of.", hidden=True),
    click.option("--as-uid", metavar="UID", help="The uid to act with.", hidden=True),
)


def command(name: str | None = None, **attributes: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a click command of a function whose first argument is the Session; coroutines are run to their end."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def run(ctx: click.Context, /, **parameters: Any) -> Any:
            overrides = dict(ctx.find_object(dict) or {})
            for key in SHARED:
                value = parameters.pop(key, None)
                if value is not None and value != ():
                    overrides[key] = value
            session = Session(overrides)
            customkinds.remember(ctx, session)
            if inspect.iscoroutinefunction(function):
                return asyncio.run(function(session, **parameters))
            return function(session, **parameters)

        wrapped: Any = click.pass_context(run)
        for option in reversed(_OPTIONS):
            wrapped = option(wrapped)
        make: Any = click.command(name, **attributes)
        made: click.Command = make(wrapped)
        return made

    return decorate
