"""A stored value that cannot be decrypted, in the place of the value.

What cannot be read must not keep the rest from being served. So the store hands it on like any other value, and whoever
wants the object in it gets an error that names the key: the readers of stored values (:mod:`wharfinger.api.storage`,
:mod:`wharfinger.api.storedjson`) refuse it.
"""

from __future__ import annotations

from wharfinger.api.errors import InternalError


class Unreadable(bytes):
    """See the module. Its bytes are a mark that no reader takes for a value; etcd's own are not kept."""

    key: str
    why: str

    @classmethod
    def of(cls, key: str, why: str) -> Unreadable:
        """Make one."""
        made = cls(b"k8s:unreadable")
        made.key, made.why = key, why
        return made

    def error(self) -> InternalError:
        """Return what a client is told who asks for the object; the first words are kube-apiserver's."""
        return InternalError(f'unable to transform key "{self.key}": {self.why}')
