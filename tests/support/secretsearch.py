"""Where a host keeps what is secret, and what of it somebody without rights could read there.

Runs on the host as root, with its Python alone. Standard input: JSON with ``secrets`` (texts by name) and ``since``
(Unix time: files changed before are the distribution's). Prints JSON, by name the places where a secret was found:
``files`` by root, ``readable`` by the user nobody, ``processes`` (command lines and environments) and ``journal``.
"""

import base64
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

NOBODY = 65534
LARGEST = 64 << 20
SKIPPED = ("/proc", "/sys", "/dev")
# With a line of the key after it: programs that read keys contain the first line alone.
KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}")
JWT = re.compile(rb"eyJ[A-Za-z0-9_-]{20,}\.(eyJ[A-Za-z0-9_-]{20,})\.[A-Za-z0-9_-]{20,}")


def found_in(content, wanted):
    names = [name for name, text in wanted.items() if text in content]
    if KEY.search(content):
        names.append("a private key")
    # Documentation has tokens as examples; those of service accounts say so.
    if any(
        b"serviceaccount" in base64.urlsafe_b64decode(claims[: len(claims) // 4 * 4]) for claims in JWT.findall(content)
    ):
        names.append("a token of a service account")
    return names


def files(wanted, since):
    """Return the places by name among the files that the present user can read."""
    places = {}
    for folder, names, here in os.walk("/"):
        names[:] = [name for name in names if os.path.join(folder, name) not in SKIPPED]
        for name in here:
            path = os.path.join(folder, name)
            try:
                about = os.lstat(path)
                if not stat.S_ISREG(about.st_mode) or about.st_ctime < since or about.st_size > LARGEST:
                    continue
                content = Path(path).read_bytes()
            except OSError:
                continue
            for secret in found_in(content, wanted):
                places.setdefault(secret, []).append(path)
    return places


def as_nobody(wanted, since):
    """Return what `files` finds for a user without rights."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        with os.fdopen(writing, "w") as pipe:
            json.dump(files(wanted, since), pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        places = json.load(pipe)
    os.waitpid(child, 0)
    return places


def processes(wanted):
    places = {}
    for entry in os.listdir("/proc"):
        for file in ("cmdline", "environ") if entry.isdigit() else ():
            try:
                content = Path("/proc", entry, file).read_bytes()
            except OSError:
                continue
            for secret in found_in(content, wanted):
                places.setdefault(secret, []).append(f"/proc/{entry}/{file}: {content[:60]!r}")
    return places


def main():
    asked = json.load(sys.stdin)
    wanted = {name: text.encode() for name, text in asked["secrets"].items()}
    journal = subprocess.run(["journalctl", "--output=export", "--no-pager"], capture_output=True, check=True).stdout
    print(json.dumps({
        "files": files(wanted, asked["since"]), "readable": as_nobody(wanted, asked["since"]),
        "processes": processes(wanted), "journal": found_in(journal, wanted), "journal bytes": len(journal),
    }))  # fmt: skip


main()
