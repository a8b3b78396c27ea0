"""An Ansible module: a folder's files in one step, where a loop of ``copy`` takes several for each of them.

What they hold is secret: it goes to the host as the modules themselves do, and is in no log, message or difference.
"""

from __future__ import annotations

import os
import pwd
import tempfile

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Write what differs; each file is replaced in one step."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "owner": {"type": "str", "required": True},
            "mode": {"type": "raw", "default": "0600"},
            "names": {"type": "list", "elements": "str", "required": True},
            # The whole of it, not its parts: only so it is kept out of the host's journal.
            "contents": {"type": "list", "elements": "str", "required": True, "no_log": True},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    if len(wanted["names"]) != len(wanted["contents"]):
        module.fail_json(msg=f"{len(wanted['names'])} names and {len(wanted['contents'])} contents")
    changed = []
    for name, content in zip(wanted["names"], wanted["contents"], strict=True):
        path = os.path.join(wanted["directory"], name)
        if _differs(path, content.encode(), wanted["owner"], int(str(wanted["mode"]), 8)):
            changed.append(name)
            if not module.check_mode:
                _write(module, path, content.encode())
    module.exit_json(changed=bool(changed), files=changed)


def _differs(path: str, content: bytes, owner: str, mode: int) -> bool:
    try:
        user = pwd.getpwnam(owner).pw_uid
        found = os.stat(path)
        with open(path, "rb") as file:
            return (file.read(), found.st_uid, found.st_mode & 0o7777) != (content, user, mode)
    except (KeyError, FileNotFoundError):  # only a check meets a user that is not there yet
        return True


def _write(module: AnsibleModule, path: str, content: bytes) -> None:
    wanted = module.params
    try:
        user = pwd.getpwnam(wanted["owner"])
        handle, draft = tempfile.mkstemp(dir=wanted["directory"], prefix=f".{os.path.basename(path)}.")  # 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fchown(file.fileno(), user.pw_uid, -1)
                os.fchmod(file.fileno(), int(str(wanted["mode"]), 8))
                os.fsync(file.fileno())
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise
    except (KeyError, OSError) as error:
        module.fail_json(msg=f"{path} cannot be written: {error}")


if __name__ == "__main__":
    main()
