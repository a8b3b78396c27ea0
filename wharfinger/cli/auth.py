"""``wharf auth``: who one is, and what one may do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from wharfinger.api.types import authentication, authorization
from wharfinger.cli.columns import print_columns
from wharfinger.cli.failures import CommandError, complain
from wharfinger.cli.helping import Group
from wharfinger.cli.output import document_of, dump_json, dump_yaml
from wharfinger.cli.rights import HEADER, Rows, add_verbs, qualified
from wharfinger.cli.session import Session, command
from wharfinger.cli.targets import find_kind

if TYPE_CHECKING:
    from wharfinger.api.kinds import Kind


@click.group(cls=Group, name="auth")
def auth() -> None:
    """Show who you are and what you may do."""


@command(name="can-i")
@click.argument("words", nargs=-1, metavar="VERB [TYPE[/NAME] [NAME] | PATH]")
@click.option("--list", "list_all", is_flag=True, help="Show all that is allowed in the namespace.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Ask about all namespaces.")
@click.option("--subresource", default="", metavar="NAME", help="Ask about a subresource, such as log.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing: the exit code is the answer.")
@click.option("--no-headers", is_flag=True, help="Without headers (--list).")
async def can_i(
    session: Session,
    *,
    words: Sequence[str],
    list_all: bool,
    all_namespaces: bool,
    subresource: str,
    quiet: bool,
    no_headers: bool,
) -> int:
    """Say whether something is allowed; the exit code is 1 when it is not.

    \b
      wharf auth can-i create pods
      wharf auth can-i get pods/log --as alice
      wharf auth can-i get /metrics
      wharf auth can-i --list -n dev
    """
    if list_all:
        if words:
            raise CommandError("--list shows everything: say no verb and no resource")
        await _list(session, headers=not no_headers)
        return 0
    if not 2 <= len(words) <= 3:
        raise CommandError("you must specify two arguments: verb resource or verb resource/resourceName.")
    review = authorization.SelfSubjectAccessReview()
    _ask(review.spec, words, subresource, "" if all_namespaces else session.namespace)
    async with session.client() as client:
        answer = await client.resource(authorization.SelfSubjectAccessReview).create(review)
    status = answer.status
    if not quiet:
        why = " - ".join(part for part in (status.reason, status.evaluationError) if part)
        print(("yes" if status.allowed else "no") + (f" - {why}" if why and not status.allowed else ""))
    return 0 if status.allowed else 1


def _ask(
    spec: authorization.SelfSubjectAccessReviewSpec, words: Sequence[str], subresource: str, namespace: str
) -> None:
    verb, what = words[:2]
    if what.startswith("/"):
        spec.nonResourceAttributes.path, spec.nonResourceAttributes.verb = what, verb
        return
    resource, _, rest = what.partition("/")
    name = words[2] if len(words) == 3 else ""
    about = spec.resourceAttributes
    about.verb, about.subresource, about.name = verb, subresource, name
    kind = _kind(resource)
    if kind is not None:
        about.group, about.resource, about.version = kind.group, kind.resource, kind.version
        if rest and rest in kind.subresources and not subresource and not name:
            about.subresource = rest
        elif rest:
            about.name = rest
        if kind.namespaced:
            about.namespace = namespace
        return
    about.resource, _, about.group = resource.partition(".")
    about.name = rest or name
    about.namespace = namespace
    if resource != "*":
        complain(f"Warning: the server doesn't have a resource type '{resource}'")


def _kind(name: str) -> Kind | None:
    if name == "*":
        return None
    try:
        return find_kind(name)
    except CommandError:
        return None  # roles may be about what no server of ours has


async def _list(session: Session, *, headers: bool) -> None:
    review = authorization.SelfSubjectRulesReview()
    review.spec.namespace = session.namespace
    async with session.client() as client:
        answer = await client.resource(authorization.SelfSubjectRulesReview).create(review)
    status = answer.status
    if status.incomplete:
        complain(f"warning: the list may be incomplete: {status.evaluationError}")
    rows: Rows = {}
    for rule in status.resourceRules:
        for group in rule.apiGroups:
            for resource in rule.resources:
                key = (qualified(resource, group), "[]", _brackets(rule.resourceNames))
                add_verbs(rows, key, rule.verbs)
    for path in status.nonResourceRules:
        for url in path.nonResourceURLs:
            add_verbs(rows, ("", f"[{url}]", "[]"), path.verbs)
    header = list(HEADER) if headers else None
    ordered = sorted(rows.items(), key=lambda item: (item[0][0] == "", item[0]))
    print_columns(header, [[*key, _brackets(verbs)] for key, verbs in ordered])


def _brackets(items: Sequence[str]) -> str:
    return f"[{' '.join(items)}]"


@command(name="whoami")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]))
async def whoami(session: Session, *, output: str | None) -> None:
    """Show as whom the server knows you."""
    async with session.client() as client:
        resource = client.resource(authentication.SelfSubjectReview)
        review = await resource.create(authentication.SelfSubjectReview())
    if output:
        document = document_of(review)
        sys.stdout.write(dump_json(document) if output == "json" else dump_yaml(document))
        return
    info = review.status.userInfo
    rows: list[list[str]] = [["Username", info.username]]
    if info.uid:
        rows.append(["UID", info.uid])
    if info.groups:
        rows.append(["Groups", _brackets(info.groups)])
    rows += [[f"Extra: {key}", _brackets(info.extra[key].items)] for key in sorted(info.extra)]
    print_columns(["ATTRIBUTE", "VALUE"], rows)


for _member in (can_i, whoami):
    auth.add_command(_member)
