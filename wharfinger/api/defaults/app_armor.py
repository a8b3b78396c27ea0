"""AppArmor profiles that a pod still names in annotations: since 1.30 they belong into a field of the container.

Done once, when a pod is made, and before it is validated. What the annotation and the field say must agree, which
validation sees to; this only fills in fields that are silent.
"""

from __future__ import annotations

from wharfinger.api.types import core

PREFIX = "container.apparmor.security.beta.kubernetes.io/"
_TYPES = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}
_LOCALHOST = "localhost/"


def adopt(pod: core.Pod) -> list[str]:
    """Give containers the profiles that annotations name for them; return a warning for each."""
    annotations = pod.metadata.annotations
    if not annotations or pod.spec.os.name == "windows":
        return []
    warnings = []
    for field in ("initContainers", "containers"):
        for index, container in enumerate(getattr(pod.spec, field)):
            text = annotations.get(PREFIX + container.name)
            if text is None or container.securityContext.HasField("appArmorProfile"):
                continue
            profile = _profile(text)
            if profile is None or profile == pod.spec.securityContext.appArmorProfile:
                continue
            container.securityContext.appArmorProfile.CopyFrom(profile)
            warnings.append(
                f'spec.{field}[{index}].securityContext: the AppArmor annotation of "{container.name}" is deprecated '
                'since v1.30; use the "appArmorProfile" field instead'
            )
    return warnings


def _profile(text: str) -> core.AppArmorProfile | None:
    if text in _TYPES:
        return core.AppArmorProfile(type=_TYPES[text])
    if text.startswith(_LOCALHOST) and len(text) > len(_LOCALHOST):
        return core.AppArmorProfile(type="Localhost", localhostProfile=text.removeprefix(_LOCALHOST))
    return None
