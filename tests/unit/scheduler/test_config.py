"""Configuration files: what they make of profiles, and what is wrong with them, by path."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from controlplane.scheduler.config import load, read
from controlplane.scheduler.decisions import Placement
from controlplane.scheduler.options import parse
from controlplane.scheduler.plugins import find
from controlplane.scheduler.profile import Profile
from tests.unit.scheduler.builders import Bench, node, pod
from wharfinger.api.configfile import ConfigError

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def profile(**entry: Any) -> Profile:
    return read({**HEAD, "profiles": [entry]}).profiles[0]


def filters(made: Profile) -> list[str]:
    return [plugin.name for plugin in made.filters]


def weights(made: Profile) -> dict[str, int]:
    return {plugin.name: weight for plugin, weight in made.scores}


def test_defaults_are_those_without_a_file() -> None:
    made = read(HEAD).profiles
    assert [entry.scheduler_name for entry in made] == ["default-scheduler"]
    assert filters(made[0]) == filters(Profile())
    assert weights(made[0]) == weights(Profile())


def test_plugins_are_taken_off_and_weighed() -> None:
    made = profile(
        schedulerName="packing",
        plugins={
            "multiPoint": {
                "disabled": [{"name": "ImageLocality"}],
                "enabled": [{"name": "TaintToleration", "weight": 9}],
            },
            "score": {"disabled": [{"name": "NodeAffinity"}], "enabled": [{"name": "InterPodAffinity", "weight": 7}]},
            "filter": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodePorts"}, {"name": "NodeName"}]},
        },
    )
    assert made.scheduler_name == "packing"
    assert filters(made) == ["NodePorts", "NodeName"]
    assert weights(made) == {
        "InterPodAffinity": 7,
        "TaintToleration": 9,
        "NodeResourcesFit": 1,
        "NodeResourcesBalancedAllocation": 1,
        "PodTopologySpread": 2,
    }


def test_arguments_reach_their_plugin() -> None:
    arguments = {"apiVersion": HEAD["apiVersion"], "kind": "NodeResourcesFitArgs", "ignoredResources": ["x.io/y"]}
    bench = Bench(node("a"), profile=profile(pluginConfig=[{"name": "NodeResourcesFit", "args": arguments}]))
    wanting = pod(requests={"x.io/y": "1"})
    assert bench.feasible(wanting) == {"a"}
    made = bench.engine.profiles["default-scheduler"]
    assert not made.checks_room(bench.info(wanting).cls), "the apiserver would refuse what is ignored here"
    assert made.checks_room(bench.info(pod(requests={"cpu": "1"})).cls)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"profile": []}, "profile: unknown key"),
        ({"profiles": [{"plugins": {"filters": {}}}]}, "profiles[0].plugins.filters: unknown key"),
        (
            {"profiles": [{"plugins": {"score": {"enabled": [{"nam": "x"}]}}}]},
            "profiles[0].plugins.score.enabled[0].name: must",
        ),
        (
            {"profiles": [{"pluginConfig": [{"name": "NodeFit"}]}]},
            "profiles[0].pluginConfig[0].name: 'NodeFit' is no plugin",
        ),
        (
            {"profiles": [{"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}}]}]},
            "profiles[0].pluginConfig[0].args: hardPodAffinityWeight: 101",
        ),
        (
            {"profiles": [{"pluginConfig": [{"name": "NodeName", "args": {"x": 1}}]}]},
            "profiles[0].pluginConfig[0].args: NodeName takes no arguments, got x",
        ),
        ({"profiles": [{}, {}]}, "profiles[1].schedulerName: 'default-scheduler' has a profile already"),
        (
            {"profiles": [{"plugins": {"queueSort": {"disabled": [{"name": "*"}]}}}]},
            "profiles[0]: default-scheduler needs",
        ),
        ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore: 101 is not within 0 to 100"),
        ({"podInitialBackoffSeconds": 20}, "podMaxBackoffSeconds: must not be below"),
        (
            {"parallelism": 4, "leaderElection": {"leaderElect": "yes"}},
            "leaderElection.leaderElect: 'yes' is no boolean",
        ),
        ({"extenders": [{"urlPrefix": "http://x"}]}, "extenders: not supported"),
        ({"kind": "Pod"}, "apiVersion, kind: "),
    ],
)
def test_mistakes_are_named_by_path(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read({**HEAD, **data})
    assert str(caught.value).startswith(message)


def test_a_file_stands_in_for_flags(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\npodMaxBackoffSeconds: 30\n"
        "leaderElection: {leaderElect: false, leaseDuration: 20s}\nprofiles: [{schedulerName: a}, {schedulerName: b}]\n"
    )
    options = parse(["--config", str(path), "--leader-elect-lease-duration", "9s"])
    assert [entry.scheduler_name for entry in options.profiles] == ["a", "b"]
    assert not options.leader_elect
    assert options.lease_duration == 9.0, "the command line counts more"
    assert options.max_backoff == 30
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"scheduler\.yaml: "):
        load(path)


PLUGIN = Path(__file__).parents[3] / "examples" / "scheduling" / "plugin"


def test_a_plugin_of_others_is_found_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "oddnodes.py").write_text((PLUGIN / "oddnodes.py").read_text())
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    entries = {**project["entry-points"]["wharfinger.scheduler.plugins"], "Broken": "oddnodes:Missing"}
    information = tmp_path / "oddnodes-1.0.dist-info"  # what pip would have written
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: oddnodes\nVersion: 1.0\n")
    lines = "".join(f"{name} = {target}\n" for name, target in entries.items())
    (information / "entry_points.txt").write_text(f"[wharfinger.scheduler.plugins]\n{lines}")
    monkeypatch.syspath_prepend(str(tmp_path))
    find.cache_clear()
    (made,) = load(PLUGIN / "scheduler.yaml").profiles
    assert filters(made)[-1] == "OddNodesOnly"
    assert [(plugin.name, weight) for plugin, weight in made.scores][-1] == ("ShortNames", 2)
    bench = Bench(profile=made)
    bench.set_node(node("n1"), node("n2"))
    picky = pod()
    picky.metadata.annotations["example.com/odd"] = ""
    assert bench.feasible(picky) == {"n1"}
    assert bench.feasible(pod()) == {"n1", "n2"}
    bench.set_node(node("a-long-name-1"))
    placement = bench.engine.decide(bench.info(picky))
    assert isinstance(placement, Placement)
    assert placement.node == "n1"
    with pytest.raises(ConfigError, match=r"filter\.enabled\[0\]\.name: plugin 'Broken' .* cannot be loaded"):
        profile(plugins={"filter": {"enabled": [{"name": "Broken"}]}})
    with pytest.raises(ConfigError, match=r"ShortNames takes only worth, got wort"):
        profile(pluginConfig=[{"name": "ShortNames", "args": {"wort": 1}}])
    find.cache_clear()
