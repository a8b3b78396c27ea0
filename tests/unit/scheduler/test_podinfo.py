from controlplane.scheduler.podinfo import HostPort, PodTable, host_ports
from tests.unit.scheduler.builders import pod, tolerate


def test_like_pods_are_one_class_and_one_usage() -> None:
    table = PodTable()
    first, second = table.info(pod("a", {"cpu": "1"})), table.info(pod("b", {"cpu": "1"}))
    assert first.cls is second.cls
    assert table.usage(pod("c", {"cpu": "1"}, node_name="n1")) is first.cls.usage


def test_what_makes_pods_differ() -> None:
    table = PodTable()
    plain = table.info(pod())
    others = [
        pod(requests={"cpu": "1"}),
        pod(image="other"),
        pod(selector={"a": "b"}),
        pod(ports=[(80, "TCP", "")]),
        tolerate(pod(), "k", "v"),
    ]
    classes = {plain.cls, *(table.info(entry).cls for entry in others)}
    assert len(classes) == len(others) + 1


def test_priority_does_not_make_pods_differ() -> None:
    table = PodTable()
    assert table.info(pod(priority=5)).cls is table.info(pod()).cls


def test_a_resize_under_way_counts_with_the_greater_amount() -> None:
    table = PodTable()
    resized = pod(requests={"cpu": "500m"})
    before = table.usage(resized)
    status = resized.status.containerStatuses.add(name="c")
    status.resources.requests["cpu"].string = "1500m"
    status.allocatedResources["cpu"].string = "1500m"
    assert before.amounts == {"cpu": 500}
    assert table.usage(resized).amounts == {"cpu": 1500}


def test_ports_of_plain_init_containers_do_not_count() -> None:
    made = pod(ports=[(80, "", "0.0.0.0")])
    made.spec.initContainers.add(name="init").ports.add(hostPort=81)
    made.spec.initContainers.add(name="sidecar", restartPolicy="Always").ports.add(hostPort=82)
    assert set(host_ports(made)) == {HostPort("TCP", 80, ""), HostPort("TCP", 82, "")}
