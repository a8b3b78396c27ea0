import pytest

from controlplane.scheduler import amounts


@pytest.mark.parametrize(
    ("resource", "amount", "shown", "quantity"),
    [
        ("cpu", 1500, "1.5", "1500m"),
        ("cpu", 2000, "2", "2"),
        ("memory", 512 * 2**20, "512Mi", "512Mi"),
        ("memory", 2**30 + 2**29, "1.5Gi", "1536Mi"),
        ("memory", 1000, "1000", "1000"),
        ("memory", 10 * 2**20 + 1, "10Mi", "10241Ki"),
        ("example.com/gpu", 3, "3", "3"),
        ("hugepages-2Mi", 4 * 2**20, "4Mi", "4Mi"),
    ],
)
def test_amounts(resource: str, amount: int, shown: str, quantity: str) -> None:
    assert amounts.show(resource, amount) == shown
    assert amounts.quantity(resource, amount) == quantity


def test_rounding_never_hides_a_difference() -> None:
    assert amounts.show_all("memory", 2**30, 2**30 - 1) == (str(2**30), str(2**30 - 1))
