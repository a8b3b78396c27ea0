"""Publishes the authority of the apiserver's certificate in every namespace, for pods to verify it by.

The ConfigMap ``kube-root-ca.crt`` is made, mended and made again as long as ``--root-ca-file`` is given; its
annotation is the one that Kubernetes gives it, word for word, because tools compare it.
"""

from __future__ import annotations

from pathlib import Path

from controlplane.controllers.context import Context, create_unless_ending, work
from controlplane.controllers.objects import deleting
from wharfinger.api import errors
from wharfinger.api.types import core

NAME = "kube-root-ca.crt"
KEY = "ca.crt"
DESCRIPTION = "kubernetes.io/description"
TEXT = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)
WORKERS = 2


class RootCAPublisher:
    """See the module. Made only when there is a file to publish; OSError when it cannot be read."""

    name = "root-ca-certificate-publisher"

    def __init__(self, context: Context) -> None:
        self._bundle = Path(context.options.root_ca_file or "").read_text()
        self._namespaces = context.informers.of(core.Namespace)
        self._maps = context.informers.of(core.ConfigMap, field_selector=f"metadata.name={NAME}")
        self._client = context.client.resource(core.ConfigMap)
        self._queue = context.queue(self.name)

    async def run(self) -> None:
        """Watch and sync."""
        self._namespaces.add_handler(
            on_add=lambda item: self._queue.add(item.metadata.name),
            on_update=lambda _, item: self._queue.add(item.metadata.name),
        )
        self._maps.add_handler(
            on_update=lambda _, item: self._queue.add(item.metadata.namespace),
            on_delete=lambda item: self._queue.add(item.metadata.namespace),
        )
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    async def _sync(self, name: str) -> None:
        namespace = self._namespaces.get(name)
        if namespace is None or deleting(namespace):
            return
        present = self._maps.get(f"{name}/{NAME}")
        wanted = core.ConfigMap()
        if present is not None:
            if dict(present.data) == {KEY: self._bundle} and present.metadata.annotations.get(DESCRIPTION) == TEXT:
                return
            wanted.CopyFrom(present)
        wanted.metadata.name, wanted.metadata.namespace = NAME, name
        wanted.metadata.annotations[DESCRIPTION] = TEXT
        wanted.data.clear()
        wanted.data[KEY] = self._bundle
        if present is None:
            await create_unless_ending(self._client.create(wanted))
            return
        try:
            await self._client.update(wanted)
        except errors.NotFoundError:
            self._queue.add(name)
