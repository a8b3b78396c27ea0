"""What expressions mean, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.api.cel import CelError, compile_expression
from wharfinger.api.cel.frame import BudgetError
from wharfinger.api.cel.values import Duration, Timestamp, UInt

SELF = {
    "n": 2, "f": 1.5, "s": "abc", "l": [1, 2, 3], "m": {"a": "x", "b": "y"}, "o": {"a": {"b": 1}}, "nothing": None,
    "my-field": 1, "namespace": "n", "x__y": 2, "t": Timestamp(0), "d": Duration(90 * 10**9),
}  # fmt: skip


def run(text: str, **more: Any) -> Any:
    variables = {"self": SELF, **more}
    return compile_expression(text, frozenset(variables)).run(variables)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("7 / 2", 3), ("-7 / 2", -3), ("-7 % 3", -1), ("7.0 / 2.0", 3.5),
        ("1u + 2u", 3), ("'a' + 'b'", "ab"), ("[1] + [2]", [1, 2]), ("b'a' + b'b'", b"ab"), ("2 - 3 - 4", -5),
        ("1 == 1.0", True), ("1 < 1.5", True), ("'a' < 'b'", True), ("true != false", True), ("1 == '1'", False),
        ("true == 1", False), ("null == null", True), ("self.nothing == null", True), ("[1, 2] == [1.0, 2]", True),
        ("self.n > 1 ? 'y' : 'n'", "y"), ("true || 1 / 0 == 1", True), ("1 / 0 == 1 || true", True),
        ("false && self.q == 1", False), ("self.q == 1 && false", False), ("!(self.n in [1, 2])", False),
        ("'a' in self.m", True), ("self.m['a']", "x"), ("self.l[1]", 2), ("self.l[1.0]", 2), ("has(self.q)", False),
        ("has(self.o.a)", True), ("has(self.o.a.c)", False), ("self.my__dash__field", 1), ("self.__namespace__", "n"),
        ("self.x__underscores__y", 2), ("size(self.s)", 3), ("self.l.size()", 3), ("self.m.size()", 2),
        ("self.l.all(x, x > 0)", True), ("self.l.exists(x, x == 3)", True), ("self.l.exists_one(x, x > 1)", False),
        ("self.l.map(x, x * 2)", [2, 4, 6]), ("self.l.map(x, x > 1, x * 2)", [4, 6]),
        ("self.l.filter(x, x != 2)", [1, 3]),
        ("self.m.all(k, self.m[k] != 'z')", True), ("self.l.all(x, self.l.exists(y, y == x))", True),
        ("[[1], [2]].map(x, x.map(x, x + 1))", [[2], [3]]), ("self.l.all(x, x / 0 == 1 || x < 9)", True),
        ("self.l.all(i, x, x == i + 1)", True), ("self.m.exists(k, v, k == 'b' && v == 'y')", True),
        ("self.l.transformList(i, x, i > 0, x * i)", [2, 6]),
        ("self.m.transformMap(k, v, v + k)", {"a": "xa", "b": "yb"}),
        ("self.m.transformMap(k, v, k == 'a', v)", {"a": "x"}), ("self.l.existsOne(i, x, x > 2)", True),
        ("type(self.n) == int", True), ("type('a') == string", True), ("int('7') + int(2.9)", 9), ("string(1.0)", "1"),
        ("double('1.5')", 1.5), ("uint(3)", 3), ("bytes('é')", "é".encode()), ("bool('true')", True),
        ("'abc'.matches('^a.c$')", True), ("'abc'.startsWith('ab') && 'abc'.endsWith('c')", True),
        ("'abc'.contains('b')", True), ("'a1b22'.findAll('[0-9]+')", ["1", "22"]), ("'a1b22'.find('[0-9]+')", "1"),
        ("'abc'.charAt(1)", "b"), ("'abcb'.indexOf('b')", 1), ("'abcb'.lastIndexOf('b')", 3),
        ("'a,b'.split(',')", ["a", "b"]),
        ("['a', 'b'].join('-')", "a-b"), ("'abc'.substring(1)", "bc"), ("' a '.trim()", "a"),
        ("'Ab'.lowerAscii()", "ab"),
        ("'aab'.replace('a', 'x', 1)", "xab"), ("'%s is %d (%.2f)'.format(['a', 1, 1.005])", "a is 1 (1.00)"),
        ("[3, 1].isSorted()", False), ("[1, 2].sum()", 3), ("[1.5, 0.5].min()", 0.5), ("['b', 'a'].max()", "b"),
        ("[1, 2, 1].lastIndexOf(1)", 2), ("duration('90s') == self.d", True), ("self.d.getMinutes()", 1),
        ("self.t + self.d == timestamp('1970-01-01T00:01:30Z')", True), ("self.t.getFullYear()", 1970),
        ("timestamp('2026-03-01T00:00:00Z').getMonth()", 2), ("self.t.getDayOfWeek()", 4), ("string(self.d)", "90s"),
        ("self.?q.orValue(5)", 5), ("self.?o.?a.?b.value()", 1), ("self.m[?'z'].hasValue()", False),
        ("optional.of(1).optMap(x, x + 1).value()", 2), ("optional.none().or(optional.of(2)).value()", 2),
        ("quantity('1Gi') == quantity('1024Mi')", False), ("quantity('1Gi').compareTo(quantity('1024Mi'))", 0),
        ("quantity('1.5').asApproximateFloat()", 1.5), ("quantity('2k').asInteger()", 2000), ("isQuantity('x')", False),
        ("url('https://a.b:1/p?q=1').getHost()", "a.b:1"), ("url('https://[::1]:8/').getHostname()", "::1"),
        ("isURL('x')", False),
        ("ip('::1').isLoopback()", True), ("isIP('1.2.3')", False), ("cidr('10.0.0.0/8').prefixLength()", 8),
        ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", True), ("sets.equivalent([1, 2, 1], [2, 1])", True),
        ("format.dns1123Label().validate('Nope').hasValue()", True), ("r'\\d' + '\\x41\\u00e9'", "\\dAé"),
        ("'''a'b'''", "a'b"), ("// a remark\n1", 1), ("0x10", 16), ("-9223372036854775808", -(1 << 63)),
    ],
)  # fmt: skip
def test_meaning(text: str, result: Any) -> None:
    found = run(text)
    assert found == result
    assert type(found) is type(result) or isinstance(found, UInt)


@pytest.mark.parametrize(
    "text",
    [
        "1 + 1.0", "1 + 'a'", "'a' < 1", "9223372036854775807 + 1", "0u - 1u", "1 / 0", "1 % 0", "self.q", "self.l[9]",
        "self.n.x", "!1", "1 && true", "1 ? 2 : 3", "'a'.matches(1)", "self.n.size()", "[].max()", "int('x')",
        "self.l.all(x, x)", "has(self.n.x)", "optional.none().value()", "quantity('q')", "ip('1.2.3')",
        "'%d'.format([])",
    ],
)  # fmt: skip
def test_fails_when_it_runs(text: str) -> None:
    with pytest.raises(CelError):
        run(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "1 +", "a b", "foo", "foo(1)", "self.s.foo()", "size()", "self.l.all(x)", "has(self)", "'open", "1..2",
        "(1",
        "[1, 2", "{1: 2", "self.", "if", "9223372036854775808", "'\\q'", "x.all(x, true)", "(" * 500 + "1" + ")" * 500,
        "-" * 500 + "n",
    ],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(CelError):
        compile_expression(text, frozenset({"self"}))


def test_variables_of_loops_end_with_them() -> None:
    assert run("self.l.all(self, self > 0) && self.n == 2") is True
    with pytest.raises(CelError, match="undeclared"):
        run("self.l.all(x, x > 0) && x == 1")


def test_the_budget_ends_what_is_too_expensive() -> None:
    text = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"
    program = compile_expression(text, frozenset({"self"}))
    assert program.run({"self": list(range(5))}) is True
    with pytest.raises(BudgetError):
        program.run({"self": list(range(1000))})
    assert program.names == {"self"}


@pytest.mark.parametrize(
    "text",
    [
        "optional.of('0123456789')" + ".optMap(x, x + x)" * 40 + ".hasValue()",  # ten terabytes
        "optional.of([1, 2, 3, 4])" + ".optMap(x, x + x)" * 40 + ".hasValue()",
        "self.exists(i, optional.of(i).optMap(x, self.all(y, y >= 0) && [1][2] == 0).hasValue())",  # failures are paid
    ],
)
def test_the_budget_knows_long_values_and_failures(text: str) -> None:
    with pytest.raises(BudgetError):
        compile_expression(text, frozenset({"self"})).run({"self": list(range(1000))})


LARGE = {
    "few": list(range(3000)), "many": [str(index) for index in range(20_000)], "numbers": list(range(20_000)),
    "nested": [[list(range(50_000))]], "text": "a" * 300_000, "forms": "(a|b){500}c|(b|a){400}d",
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "sets.contains(self.numbers, self.numbers)", "sets.equivalent(self.numbers, self.numbers)",
        "!sets.intersects(self.numbers, self.many)", "self.few.all(x, self.nested == self.nested)",
        "self.few.all(x, !(self.nested != self.nested))", "self.few.all(x, !([1] in self.nested))",
        "self.few.all(x, self.nested.indexOf([1]) < 0)", "self.few.all(x, '%s'.format([self.nested]) != '')",
        "self.few.all(x, self.text.findAll('').size() > 0)", "self.few.all(x, !self.text.matches(self.forms))",
    ],
)  # fmt: skip
def test_the_budget_knows_what_functions_really_do(text: str) -> None:
    """Each of these would take minutes, in which the server does nothing else."""
    with pytest.raises(BudgetError):
        compile_expression(text, frozenset(("self",))).run({"self": LARGE})


def test_sets_of_many_texts_are_cheap() -> None:
    variables = {"self": LARGE}
    assert compile_expression("sets.equivalent(self.many, self.many)", frozenset(variables)).run(variables)
    assert not compile_expression("sets.intersects(self.many, ['x'])", frozenset(variables)).run(variables)


@pytest.mark.parametrize("text", ["['a', 'b'].sum()", "[[1], [2]].sum()"])
def test_only_amounts_have_a_sum(text: str) -> None:
    with pytest.raises(CelError, match="no such overload: sum"):
        run(text)


def test_what_is_no_key_is_in_no_map() -> None:
    assert run("[1] in self.m") is False
