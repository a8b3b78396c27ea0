import pytest

from controlplane.scheduler.plugins.image_locality import normalised
from tests.unit.scheduler.builders import Bench, node, pod

PLUGIN = "ImageLocality"
MB = 1024 * 1024


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("nginx", "nginx:latest"),
        ("localhost:5000/nginx", "localhost:5000/nginx:latest"),
        ("nginx:1", "nginx:1"),
        ("nginx@sha256:aa", "nginx@sha256:aa"),
    ],
)
def test_the_implied_tag(written: str, name: str) -> None:
    assert normalised(written) == name


def test_nodes_that_have_a_big_image_score_by_its_share_and_size() -> None:
    bench = Bench(node("has", images={"app:1": 523 * MB * 2}), node("not"))
    raw, _ = bench.scores(pod(image="app:1"), PLUGIN)
    assert raw == {"has": 100 * (523 - 23) // (1000 - 23), "not": 0}


def test_a_new_node_changes_the_share_for_all() -> None:
    bench = Bench(node("has", images={"app:1": 2000 * MB}), node("not"))
    before = bench.scores(pod(image="app:1"), PLUGIN)[0]["has"]
    bench.set_node(node("third"))
    after = bench.scores(pod(image="app:1"), PLUGIN)[0]["has"]
    assert after < before
    bench.table.remove_node("third")
    assert bench.scores(pod(image="app:1"), PLUGIN)[0]["has"] == before
