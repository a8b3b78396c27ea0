"""postStart and preStop hooks: a command in the container, an HTTP request to it, or a pause.

https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
"""

from __future__ import annotations

import asyncio
import shlex

from nodeagent.context import NodeContext
from nodeagent.network import http_status, reason, resolve_port
from nodeagent.runtime import RuntimeFailure
from wharfinger.api.types import core

_EXEC_SECONDS = 3600.0
_HTTP_SECONDS = 30.0


class HookError(Exception):
    """Raised when a hook failed; the text is the event's."""


async def run_hook(
    context: NodeContext, pod: core.Pod, container: core.Container, hook: core.LifecycleHandler, container_id: str
) -> None:
    """Run a hook to its end. Raises HookError."""
    which = "PostStartHook" if hook == container.lifecycle.postStart else "PreStopHook"
    if hook.HasField("sleep"):
        await asyncio.sleep(hook.sleep.seconds)
    elif hook.HasField("exec"):
        command = list(hook.exec.command)
        try:
            result = await context.runtime.exec(container_id, command, _EXEC_SECONDS)
        except TimeoutError as error:
            raise HookError(f"{which} failed: not done within {_EXEC_SECONDS:g}s") from error
        except RuntimeFailure as error:
            raise HookError(f"{which} failed: {error}") from error
        if result.exit_code != 0:
            output = (result.stdout + result.stderr)[:512].decode(errors="replace")
            shown = shlex.join(command)
            raise HookError(f"{which} failed: command [{shown}] exited with {result.exit_code}: {output}")
    elif hook.HasField("httpGet"):
        record = await context.runtime.inspect(pod.metadata.uid)
        ips = record.sandboxes[0].ips if record.sandboxes else ()
        host = hook.httpGet.host or (ips[0] if ips else (context.view.host_ips or ("127.0.0.1",))[0])
        try:
            status = await http_status(
                host,
                resolve_port(hook.httpGet.port, container),
                hook.httpGet.path,
                tls=hook.httpGet.scheme == "HTTPS",
                headers={header.name: header.value for header in hook.httpGet.httpHeaders},
                timeout=_HTTP_SECONDS,
            )
        except TimeoutError as error:
            raise HookError(f"{which} failed: no answer within {_HTTP_SECONDS:g}s") from error
        except (OSError, ValueError) as error:
            raise HookError(f"{which} failed: {reason(error)}") from error
        if status >= 400:
            raise HookError(f"{which} failed: HTTP status {status}")
    else:
        raise HookError(f"{which} failed: this kind of handler is not supported by this node agent")
