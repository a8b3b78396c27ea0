"""``wharf config``: look at and change kubeconfig files, in kubectl's words.

A change goes into the file that has the entry already, else into the first one; the file is replaced in one step and
stays readable for its owner only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from wharfinger import wholefile
from wharfinger.cli.columns import print_columns
from wharfinger.cli.failures import CommandError
from wharfinger.cli.helping import Group
from wharfinger.cli.session import Session, command

_SECRETS = ("client-certificate-data", "client-key-data", "certificate-authority-data")
_REDACTED = ("token", "password")


@click.group(cls=Group, name="config")
def config() -> None:
    """Look at and change the kubeconfig."""


def _document(session: Session) -> dict[str, Any]:
    return session.document


def _names(session: Session, section: str) -> list[str]:
    return [str(entry.get("name", "")) for entry in _document(session).get(section) or []]


@command(name="view")
@click.option("--raw", is_flag=True, help="With keys, certificates and tokens.")
@click.option("--minify", is_flag=True, help="Only what the current context uses.")
@click.option("-o", "--output", type=str, default="yaml", help="yaml, json, jsonpath=…")
def view(session: Session, *, raw: bool, minify: bool, output: str) -> None:
    """Show the merged kubeconfig."""
    from wharfinger.cli.output import DocumentPrinter, parse_output

    document = _document(session)
    current = session.overrides.get("context") or document.get("current-context", "")
    if minify:
        context = _find(document, "contexts", current, "context")
        keep = {"contexts": current, "clusters": context.get("cluster"), "users": context.get("user")}
        document = {
            **document,
            "current-context": current,
            **{key: [one for one in document.get(key, []) if one.get("name") == name] for key, name in keep.items()},
        }
    shown = {
        "apiVersion": "v1", "kind": "Config", "current-context": document.get("current-context", ""),
        "preferences": document.get("preferences") or {},
        **{
            key: [_shown(entry, raw=raw) for entry in document.get(key, [])]
            for key in ("clusters", "contexts", "users")
        },
    }  # fmt: skip
    DocumentPrinter(parse_output(output)).print(shown)


def _shown(entry: dict[str, Any], *, raw: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for key, value in entry.items():
        if key.startswith("_"):
            continue
        shown[key] = dict(value) if isinstance(value, dict) else value
        if not raw and isinstance(value, dict):
            shown[key].update({name: "DATA+OMITTED" for name in _SECRETS if value.get(name)})
            shown[key].update({name: "REDACTED" for name in _REDACTED if value.get(name)})
    return shown


def _find(document: dict[str, Any], section: str, name: str, key: str) -> dict[str, Any]:
    for entry in document.get(section) or []:
        if entry.get("name") == name:
            return dict(entry.get(key) or {})
    raise CommandError(f"{key} {name!r} does not exist in the kubeconfig")


@command(name="current-context")
def current_context(session: Session) -> None:
    """Show the name of the current context."""
    name = _document(session).get("current-context")
    if not name:
        raise CommandError("current-context is not set")
    sys.stdout.write(f"{name}\n")


@command(name="get-contexts")
@click.argument("names", nargs=-1)
@click.option("-o", "--output", type=click.Choice(["name"]))
@click.option("--no-headers", is_flag=True, help="Without the line of headers.")
def get_contexts(session: Session, *, names: Sequence[str], output: str | None, no_headers: bool) -> int:
    """Show one or many contexts."""
    document = _document(session)
    current = document.get("current-context")
    entries = {str(one.get("name")): one.get("context") or {} for one in document.get("contexts") or []}
    missing = [name for name in names if name not in entries]
    chosen = [name for name in (names or sorted(entries)) if name in entries]
    if output == "name":
        sys.stdout.writelines(f"{name}\n" for name in chosen)
    else:
        rows = [
            [
                "*" if name == current else "", name, str(entries[name].get("cluster", "")),
                str(entries[name].get("user", "")), str(entries[name].get("namespace", "")),
            ]
            for name in chosen
        ]  # fmt: skip
        print_columns(None if no_headers else ["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"], rows)
    for name in missing:
        sys.stderr.write(f"error: context {name} not found\n")
    return 1 if missing else 0


@command(name="get-clusters")
def get_clusters(session: Session) -> None:
    """Show the names of the clusters."""
    print_columns(["NAME"], [[name] for name in _names(session, "clusters")])


@command(name="get-users")
def get_users(session: Session) -> None:
    """Show the names of the users."""
    print_columns(["NAME"], [[name] for name in _names(session, "users")])


@command(name="use-context")
@click.argument("name")
def use_context(session: Session, *, name: str) -> None:
    """Make NAME the current context."""
    if name not in _names(session, "contexts"):
        raise CommandError(f'no context exists with the name: "{name}"')
    path, document = _file_for(session, lambda one: "current-context" in one)
    document["current-context"] = name
    _save(path, document)
    sys.stdout.write(f'Switched to context "{name}".\n')


@command(name="set-context")
@click.argument("name", required=False)
@click.option("--current", is_flag=True, help="Change the current context.")
def set_context(session: Session, *, name: str | None, current: bool) -> None:
    """Make or change a context, with the values of --cluster, --user and --namespace."""
    if bool(name) == current:
        raise CommandError("name a context, or say --current")
    document_now = _document(session) if session.kubeconfig is None or Path(session.kubeconfig).exists() else {}
    target = name or str(document_now.get("current-context") or "")
    if not target:
        raise CommandError("current-context is not set")
    values = {key: session.overrides[key] for key in ("cluster", "user", "namespace") if session.overrides.get(key)}
    made = _change(session, "contexts", "context", target, values)
    sys.stdout.write(f'Context "{target}" {"created" if made else "modified"}.\n')


@command(name="set-cluster")
@click.argument("name")
@click.option("--certificate-authority", type=click.Path(exists=True, path_type=Path), help="PEM of the authority.")
@click.option("--grpc", "endpoints", multiple=True, metavar="HOST:PORT", help="A gRPC endpoint (again for more).")
@click.option("--token-grpc", "token_endpoints", multiple=True, metavar="HOST:PORT", help="The same, for tokens.")
def set_cluster(
    session: Session, *, name: str, certificate_authority: Path | None, endpoints: Sequence[str],
    token_endpoints: Sequence[str],
) -> None:  # fmt: skip
    """Make or change a cluster entry; --server is its HTTPS address."""
    values: dict[str, Any] = {}
    if server := session.overrides.get("server"):
        values["server"] = server
    if certificate_authority is not None:
        values["certificate-authority"] = str(certificate_authority.resolve())
    extension = {
        key: list(given) for key, given in (("endpoints", endpoints), ("tokenEndpoints", token_endpoints)) if given
    }
    if extension:
        values["extensions"] = [{"name": "wharfinger.dev/grpc", "extension": extension}]
    _change(session, "clusters", "cluster", name, values)
    sys.stdout.write(f'Cluster "{name}" set.\n')


@command(name="set-credentials")
@click.argument("name")
@click.option("--client-certificate", type=click.Path(exists=True, path_type=Path), help="PEM of the certificate.")
@click.option("--client-key", type=click.Path(exists=True, path_type=Path), help="PEM of its key.")
def set_credentials(session: Session, *, name: str, client_certificate: Path | None, client_key: Path | None) -> None:
    """Make or change a user entry; --token is its bearer token."""
    values: dict[str, Any] = {}
    for key, path in (("client-certificate", client_certificate), ("client-key", client_key)):
        if path is not None:
            values[key] = str(path.resolve())
    if token := session.overrides.get("token"):
        values["token"] = token
    _change(session, "users", "user", name, values)
    sys.stdout.write(f'User "{name}" set.\n')


@command(name="delete-context")
@click.argument("name")
def delete_context(session: Session, *, name: str) -> None:
    """Remove a context."""
    path, document = _file_for(session, lambda one: _has(one, "contexts", name))
    if not _has(document, "contexts", name):
        raise CommandError(f"cannot delete context {name}, not in {path}")
    document["contexts"] = [one for one in document["contexts"] if one.get("name") != name]
    _save(path, document)
    sys.stdout.write(f"deleted context {name} from {path}\n")


@command(name="rename-context")
@click.argument("old")
@click.argument("new")
def rename_context(session: Session, *, old: str, new: str) -> None:
    """Give a context another name."""
    path, document = _file_for(session, lambda one: _has(one, "contexts", old))
    if not _has(document, "contexts", old):
        raise CommandError(f'cannot rename the context "{old}", it\'s not in {path}')
    if new in _names(session, "contexts"):
        raise CommandError(f'cannot rename the context "{old}", the context "{new}" already exists in {path}')
    for entry in document["contexts"]:
        if entry.get("name") == old:
            entry["name"] = new
    if document.get("current-context") == old:
        document["current-context"] = new
    _save(path, document)
    sys.stdout.write(f'Context "{old}" renamed to "{new}".\n')


# --- files -----------------------------------------------------------------------------------------------------------


def _has(document: dict[str, Any], section: str, name: str) -> bool:
    return any(entry.get("name") == name for entry in document.get(section) or [])


def _load(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, yaml.YAMLError) as error:
        raise CommandError(f"kubeconfig {path} cannot be read: {error}") from error
    if document is not None and not isinstance(document, dict):
        raise CommandError(f"kubeconfig {path} must hold a mapping")
    return document or {}


def _file_for(session: Session, has: Any) -> tuple[Path, dict[str, Any]]:
    """Return the file that a change belongs into, and what it holds."""
    from wharfinger.client.config import kubeconfig_paths

    paths = kubeconfig_paths(session.kubeconfig)
    for path in paths:
        document = _load(path)
        if has(document):
            return path, document
    return paths[0], _load(paths[0])


def _change(session: Session, section: str, key: str, name: str, values: dict[str, Any]) -> bool:
    """Set values of an entry; returns whether it had to be made."""
    path, document = _file_for(session, lambda one: _has(one, section, name))
    entries: list[dict[str, Any]] = document.get(section) or []
    made = not _has(document, section, name)
    if made:
        entries.append({"name": name, key: {}})
    for entry in entries:
        if entry.get("name") == name:
            entry[key] = {**(entry.get(key) or {}), **values}
    document = {"apiVersion": "v1", "kind": "Config", **document, section: entries}
    _save(path, document)
    return made


def _save(path: Path, document: dict[str, Any]) -> None:
    wholefile.write(path, yaml.safe_dump(document, sort_keys=False).encode())


for _command in (
    view, current_context, get_contexts, get_clusters, get_users, use_context, set_context, set_cluster,
    set_credentials, delete_context, rename_context,
):  # fmt: skip
    config.add_command(_command)
