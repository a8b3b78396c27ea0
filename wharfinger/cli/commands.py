"""The table of commands: name → where it lives, its section in the help, its help line.

A command is one file in this package and one line here; the file is imported when the command is used.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One command of the table."""

    target: str
    """``module:attribute`` of the click command."""
    section: str
    help: str
    hidden: bool = False


_PACKAGE = "wharfinger.cli"

BASIC, INSPECT, CHANGE, NODES, SETUP, OTHER = (
    "Basic commands", "Looking closer", "Changing objects", "Nodes", "Clusters", "Other commands",
)  # fmt: skip


def _entry(target: str, section: str, help_line: str, *, hidden: bool = False) -> Entry:
    return Entry(f"{_PACKAGE}.{target}", section, help_line, hidden)


COMMANDS: dict[str, Entry] = {
    "get": _entry("get:get", BASIC, "Show objects"),
    "create": _entry("create:create", BASIC, "Create objects from files"),
    "run": _entry("run:run", BASIC, "Run a pod from an image"),
    "apply": _entry("apply:apply", BASIC, "Make the cluster agree with files"),
    "delete": _entry("delete:delete", BASIC, "Delete objects"),
    "describe": _entry("describe:describe", INSPECT, "Show objects in detail, with what happened to them"),
    "explain": _entry("explain:explain", INSPECT, "Explain kinds and their fields"),
    "why": _entry("why:why", INSPECT, "Say why a pod is pending or where it is, or what all wait for"),
    "simulate": _entry("simulate:simulate", INSPECT, "Show where pods would go, without changing anything"),
    "map": _entry("map:map_", INSPECT, "Draw the nodes and what fills them"),
    "logs": _entry("logs:logs", INSPECT, "Print the logs of containers"),
    "exec": _entry("exec:exec_", INSPECT, "Run a command in a container"),
    "attach": _entry("exec:attach", INSPECT, "Join the first process of a container"),
    "port-forward": _entry("portforward:port_forward", INSPECT, "Reach ports of a pod from here"),
    "cp": _entry("cp:cp", INSPECT, "Copy files from and to containers"),
    "top": _entry("top:top", INSPECT, "Show what nodes and pods use"),
    "events": _entry("events:events", INSPECT, "Show what has happened"),
    "wait": _entry("wait:wait", INSPECT, "Wait until objects are as you want them"),
    "replace": _entry("replace:replace", CHANGE, "Replace objects by what files say"),
    "patch": _entry("patch:patch", CHANGE, "Change fields of objects"),
    "edit": _entry("edit:edit", CHANGE, "Change objects in an editor"),
    "label": _entry("metadata:label", CHANGE, "Set or remove labels"),
    "annotate": _entry("metadata:annotate", CHANGE, "Set or remove annotations"),
    "scale": _entry("scale:scale", CHANGE, "Set the number of a workload's pods"),
    "bind": _entry("bind:bind", NODES, "Put a pod on a node by hand"),
    "cordon": _entry("nodes:cordon", NODES, "Let a node take no more pods"),
    "uncordon": _entry("nodes:uncordon", NODES, "Let a node take pods again"),
    "drain": _entry("drain:drain", NODES, "Empty a node for maintenance"),
    "taint": _entry("nodes:taint", NODES, "Set or remove taints of nodes"),
    "api-resources": _entry("version:api_resources", SETUP, "Show which kinds the server knows"),
    "api-versions": _entry("version:api_versions", SETUP, "Show which API versions the server knows"),
    "cluster-info": _entry("version:cluster_info", SETUP, "Show where the control plane is"),
    "version": _entry("version:version", SETUP, "Show the versions of wharf and of the server"),
    "auth": _entry("auth:auth", SETUP, "Show who you are and what you may do"),
    "config": _entry("config:config", SETUP, "Look at and change the kubeconfig"),
    "etcd": _entry("etcd:etcd", SETUP, "Look after the etcd behind the apiservers"),
    "pki": _entry("pki:pki", SETUP, "Make and look at the cluster's certificates"),
    "certificate": _entry("certificate:certificate", SETUP, "Approve or deny requests for certificates"),
    "token": _entry("token:token", SETUP, "Make, list and delete the tokens by which new nodes join"),
    "completion": _entry("completion:completion", OTHER, "Print the completion script of a shell"),
}
