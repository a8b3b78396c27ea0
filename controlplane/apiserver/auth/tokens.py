"""The static token file, in the format of kube-apiserver's ``--token-auth-file``.

One user a line, as CSV: ``token,user,uid`` and optionally a quoted list of groups, ``"g1,g2"``. The file is read once,
at the start: as in Kubernetes, a change needs a restart.
"""

from __future__ import annotations

import csv
from hashlib import sha256
from typing import TYPE_CHECKING

from controlplane.apiserver.auth.bearer import Identified
from controlplane.apiserver.auth.certificates import AUTHENTICATED
from controlplane.apiserver.request import User

if TYPE_CHECKING:
    from pathlib import Path


class TokenFile:
    """Users by bearer token.

    Tokens are looked up by their SHA-256, so the time of a look-up says nothing about a token's bytes.
    """

    def __init__(self, users: dict[bytes, User]) -> None:
        self._users = users

    @classmethod
    def load(cls, path: Path) -> TokenFile:
        """Read the file.

        Raises ValueError with the line's number when a line is malformed or a token stands twice.
        """
        users: dict[bytes, User] = {}
        with path.open(newline="", encoding="utf-8") as stream:
            for number, row in enumerate(csv.reader(stream), start=1):
                if not row or row[0].startswith("#"):
                    continue
                if len(row) < 3 or not row[0].strip() or not row[1].strip():
                    raise ValueError(
                        f"{path}, line {number}: {len(row)} columns; expected token,user,uid and perhaps "
                        'a quoted list of groups, "group1,group2"'
                    )
                token, name, uid = (cell.strip() for cell in row[:3])
                groups = [group.strip() for group in row[3].split(",")] if len(row) > 3 and row[3].strip() else []
                digest = _digest(token)
                if digest in users:
                    raise ValueError(f"{path}, line {number}: the token of user {name!r} stands in the file before")
                users[digest] = User(name=name, uid=uid, groups=(*groups, AUTHENTICATED))
        return cls(users)

    def identify(self, token: str) -> Identified | None:
        """Return the user of a token; None when it does not stand in the file."""
        user = self._users.get(_digest(token))
        return None if user is None else Identified(user)


def _digest(token: str) -> bytes:
    return sha256(token.encode(errors="surrogateescape")).digest()  # headers may hold bytes that are no text
