"""Acting as somebody else, for those who may: the headers ``Impersonate-User``, ``-Group``, ``-Uid``, ``-Extra-…``.

Over gRPC the metadata have the same names in lower case. Each part needs the verb ``impersonate``: on users, service
accounts, groups, on uids and on each value of an extra (both in the group authentication.k8s.io). What follows is
authorised as that user alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from controlplane.apiserver.auth.attributes import Attributes
from controlplane.apiserver.auth.certificates import AUTHENTICATED
from controlplane.apiserver.request import User
from wharfinger.api.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.apiserver.auth.authorizer import Authorizers

PREFIX = "impersonate-"
_USER, _GROUP, _UID, _EXTRA = f"{PREFIX}user", f"{PREFIX}group", f"{PREFIX}uid", f"{PREFIX}extra-"
_AUTHENTICATION = "authentication.k8s.io"
_ACCOUNT = "system:serviceaccount:"
_ANONYMOUS, UNAUTHENTICATED = "system:anonymous", "system:unauthenticated"


def impersonated(user: User, headers: Iterable[tuple[str, str]], authorizers: Authorizers) -> User:
    """Return the user to act as: the one that the headers name, else the user itself.

    `headers` are names in lower case and values. Raises ForbiddenError for who may not, BadRequestError for groups,
    uids or extras without a user.
    """
    name, uid = "", ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    for header, value in headers:
        if not header.startswith(PREFIX):
            continue
        if header == _USER:
            name = value
        elif header == _GROUP:
            groups.append(value)
        elif header == _UID:
            uid = value
        elif header.startswith(_EXTRA):
            extra.setdefault(unquote(header[len(_EXTRA) :]), []).append(value)
    if not name:
        if groups or uid or extra:
            raise BadRequestError(f"{PREFIX}group, {PREFIX}uid and {PREFIX}extra need {PREFIX}user")
        return user
    _check(user, name, groups, uid, extra, authorizers)
    if not groups:
        groups = _own_groups(name)
    known = AUTHENTICATED in groups or UNAUTHENTICATED in groups
    if not known:
        groups.append(UNAUTHENTICATED if name == _ANONYMOUS else AUTHENTICATED)
    return User(name, tuple(groups), uid, tuple((key, tuple(values)) for key, values in sorted(extra.items())))


def _check(
    user: User, name: str, groups: list[str], uid: str, extra: dict[str, list[str]], authorizers: Authorizers
) -> None:
    account = _account(name)
    if account is not None:
        namespace, short = account
        asked = [Attributes(user, "impersonate", "", "serviceaccounts", "", namespace, short)]
    else:
        asked = [Attributes(user, "impersonate", "", "users", "", "", name)]
    asked += [Attributes(user, "impersonate", "", "groups", "", "", group) for group in groups]
    if uid:
        asked.append(Attributes(user, "impersonate", _AUTHENTICATION, "uids", "", "", uid))
    for key, values in extra.items():
        asked += [Attributes(user, "impersonate", _AUTHENTICATION, "userextras", key, "", value) for value in values]
    for one in asked:
        authorizers.require(one)


def _account(name: str) -> tuple[str, str] | None:
    """Take a service account's user name apart; None for any other."""
    if not name.startswith(_ACCOUNT):
        return None
    namespace, separator, short = name[len(_ACCOUNT) :].partition(":")
    return (namespace, short) if separator and namespace and short and ":" not in short else None


def _own_groups(name: str) -> list[str]:
    """Return the groups that a user has by its name alone."""
    account = _account(name)
    return ["system:serviceaccounts", f"system:serviceaccounts:{account[0]}"] if account is not None else []
