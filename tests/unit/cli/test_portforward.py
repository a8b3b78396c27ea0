"""Ports and addresses as people type them."""

from __future__ import annotations

import pytest

from wharfinger.api.types import core
from wharfinger.cli.failures import CommandError
from wharfinger.cli.portforward import Forward, addresses_of, parse_port


def _pod() -> core.Pod:
    pod = core.Pod()
    pod.metadata.name = "web"
    pod.spec.containers.add(name="c").ports.add(name="http", containerPort=8080)
    return pod


def _service(**port: object) -> core.Service:
    service = core.Service()
    service.metadata.name = "web"
    made = service.spec.ports.add(name="www", port=80)
    if "number" in port:
        made.targetPort.intVal = int(str(port["number"]))
    if "name" in port:
        made.targetPort.type, made.targetPort.strVal = 1, str(port["name"])
    return service


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("80", Forward(80, 80)),
        ("8000:80", Forward(8000, 80)),
        (":80", Forward(0, 80)),
        ("0:80", Forward(0, 80)),
        ("http", Forward(8080, 8080)),
        ("9000:http", Forward(9000, 8080)),
    ],
)
def test_ports_of_pods(text: str, wanted: Forward) -> None:
    assert parse_port(text, _pod()) == wanted


@pytest.mark.parametrize(
    ("service", "text", "wanted"),
    [
        (_service(), "80", Forward(80, 80)),
        (_service(number=9090), "80", Forward(80, 9090)),
        (_service(number=9090), "8000:www", Forward(8000, 9090)),
        (_service(name="http"), "www", Forward(8080, 8080)),
        (_service(name="http"), ":80", Forward(0, 8080)),
    ],
)
def test_ports_of_services(service: core.Service, text: str, wanted: Forward) -> None:
    assert parse_port(text, _pod(), service) == wanted


@pytest.mark.parametrize("text", ["", ":", "a:b:c", "1:2:3", "x:80", "70000:80", "0", "70000", "80:0", "nothing", "-1"])
def test_what_is_no_port(text: str) -> None:
    with pytest.raises(CommandError):
        parse_port(text, _pod())


def test_a_port_that_the_service_does_not_have() -> None:
    with pytest.raises(CommandError, match="does not have a service port 81"):
        parse_port("81", _pod(), _service())


def test_addresses() -> None:
    assert addresses_of([]) == ["127.0.0.1", "::1"]
    assert addresses_of(["localhost,10.0.0.1", "::"]) == ["127.0.0.1", "::1", "10.0.0.1", "::"]
    with pytest.raises(CommandError, match=r"example\.org is not a valid IP"):
        addresses_of(["example.org"])
