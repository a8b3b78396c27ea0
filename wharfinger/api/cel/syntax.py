"""CEL text to a tree: a scanner and a parser by precedence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from wharfinger.api.cel.values import CelError, UInt

MAX_LENGTH = 64 * 1024
MAX_DEPTH = 100

_TOKEN = re.compile(
    r"""\s*(?://[^\n]*\s*)*(?:
    (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<int>0[xX][0-9a-fA-F]+|\d+)(?P<unsigned>[uU])?
    |(?P<string>(?:[bB][rR]?|[rR][bB]?)?(?:\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''
        |\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign>&&|\|\||<=|>=|==|!=|\.\?|\[\?|[-+*/%!<>?:.,()\[\]{}])
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_RESERVED = frozenset({
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
    "namespace", "return", "var", "void", "while",
})  # fmt: skip
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("<", "<=", ">=", ">", "==", "!=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)


@dataclass(frozen=True, slots=True)
class Node:
    """One place of the tree: what it is, its parts, and where it stands."""

    kind: str
    """``literal``, ``name``, ``select``, ``index``, ``call``, ``list``, ``map``, ``binary``, ``unary``, ``choice``."""
    value: Any = None
    """The literal; the name of a variable, field, function or operator."""
    parts: tuple[Any, ...] = ()
    optional: bool = False
    """Of a select or index: with a question mark, ``a.?b``."""
    position: int = 0


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    value: Any
    position: int


def parse(text: str) -> Node:
    """Parse an expression. Raises CelError that says where it breaks."""
    if len(text) > MAX_LENGTH:
        raise CelError(f"the expression has {len(text)} characters; at most {MAX_LENGTH} are read")
    parser = _Parser(_scan(text))
    tree = parser.expression()
    parser.expect("end")
    return tree


def _scan(text: str) -> list[_Token]:
    tokens, at = [], 0
    stripped = re.compile(r"(?:\s|//[^\n]*(?:\n|$))*")
    while True:
        blank = stripped.match(text, at)
        at = blank.end() if blank else at
        if at >= len(text):
            break
        found = _TOKEN.match(text, at)
        if found is None:
            raise CelError(f"syntax error at {at + 1}: unexpected {text[at : at + 10]!r}")
        kind = found.lastgroup or ""
        if kind == "unsigned":
            kind = "int"
        tokens.append(_token(kind, found, at))
        at = found.end()
    tokens.append(_Token("end", "", None, len(text)))
    return tokens


def _token(kind: str, found: re.Match[str], at: int) -> _Token:
    text = found[kind]
    if kind == "int":
        number = int(text, 16) if text[:2] in ("0x", "0X") else int(text)
        if found["unsigned"]:
            return _Token("literal", text, UInt(number), at)
        if number > 1 << 63:
            raise CelError(f"syntax error at {at + 1}: {text} does not fit into int64")
        return _Token("literal", text, number, at)
    if kind == "float":
        return _Token("literal", text, float(text), at)
    if kind == "string":
        return _Token("literal", text, _unquote(text), at)
    if kind == "name" and text in ("true", "false", "null"):
        return _Token("literal", text, {"true": True, "false": False, "null": None}[text], at)
    if kind == "name" and text == "in":
        return _Token("sign", "in", None, at)
    return _Token(kind, text, None, at)


def _unquote(text: str) -> str | bytes:
    start = min(at for at in (text.find('"'), text.find("'")) if at >= 0)
    prefix, rest = text[:start].lower(), text[start:]
    size = 3 if rest[:3] in ('"""', "'''") else 1
    inner = rest[size:-size]
    binary = "b" in prefix
    if "r" in prefix:
        return inner.encode() if binary else inner
    if not binary:
        return _ESCAPE.sub(_escape, inner)
    out = bytearray()
    at = 0
    for found in _ESCAPE.finditer(inner):
        out += inner[at : found.start()].encode()
        code = found[1]
        if code[0] in "x0123" and len(code) == 3:
            out.append(int(code[1:], 16) if code[0] == "x" else int(code, 8))
        else:
            out += _escape(found).encode()
        at = found.end()
    return bytes(out + inner[at:].encode())


def _escape(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "xuU" and len(code) > 1:
        return chr(int(code[1:], 16))
    if len(code) == 3 and code.isdigit():
        return chr(int(code, 8))
    if code in _SIMPLE:
        return _SIMPLE[code]
    if code in "\\?\"'`":
        return code
    raise CelError(f"syntax error: \\{code} is no escape")


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> _Token | None:
        token = self._next
        if token.kind == "sign" and token.text in texts:
            self._at += 1
            return token
        return None

    def expect(self, what: str) -> _Token:
        token = self._next
        if (token.kind == what and what in ("end", "name")) or (token.kind == "sign" and token.text == what):
            self._at += 1
            return token
        shown = repr(token.text) if token.kind != "end" else "the end"
        raise CelError(f"syntax error at {token.position + 1}: {shown} stands where {what!r} is expected")

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise CelError(f"the expression is nested more than {MAX_DEPTH} levels deep")
        condition = self._logical("||", lambda: self._logical("&&", lambda: self._binary(0)))
        if mark := self._take("?"):
            yes = self._logical("||", lambda: self._logical("&&", lambda: self._binary(0)))
            self.expect(":")
            condition = Node("choice", None, (condition, yes, self.expression()), position=mark.position)
        self._depth -= 1
        return condition

    def _logical(self, sign: str, below: Any) -> Node:
        left: Node = below()
        while token := self._take(sign):
            left = Node("binary", sign, (left, below()), position=token.position)
        return left

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while token := self._take(*_LEVELS[level]):
            left = Node("binary", token.text, (left, self._binary(level + 1)), position=token.position)
        return left

    def _unary(self) -> Node:
        if token := self._take("!", "-"):
            literal = self._next
            if token.text == "-" and literal.kind == "literal" and type(literal.value) in (int, float):
                self._at += 1
                return self._member(Node("literal", -literal.value, position=token.position))
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise CelError(f"the expression is nested more than {MAX_DEPTH} levels deep")
            inner = self._unary()
            self._depth -= 1
            return Node("unary", token.text, (inner,), position=token.position)
        return self._member(self._primary())

    def _member(self, left: Node) -> Node:
        while True:
            if token := self._take(".", ".?"):
                name = self.expect("name")
                if token.text == "." and self._take("("):
                    arguments = self._list(")")
                    left = Node("call", name.text, (left, *arguments), position=name.position)
                else:
                    left = Node("select", name.text, (left,), optional=token.text == ".?", position=name.position)
            elif token := self._take("[", "[?"):
                inner = self.expression()
                self.expect("]")
                left = Node("index", None, (left, inner), optional=token.text == "[?", position=token.position)
            else:
                return left

    def _list(self, end: str) -> list[Node]:
        found: list[Node] = []
        while not self._take(end):
            self._take("?")
            found.append(self.expression())
            if not self._take(","):
                self.expect(end)
                break
        return found

    def _primary(self) -> Node:
        token = self._next
        if token.kind == "literal":
            self._at += 1
            if type(token.value) is int and token.value == 1 << 63:
                raise CelError(f"syntax error at {token.position + 1}: {token.text} does not fit into int64")
            return Node("literal", token.value, position=token.position)
        if self._take("("):
            inner = self.expression()
            self.expect(")")
            return inner
        if self._take("["):
            return Node("list", None, tuple(self._list("]")), position=token.position)
        if self._take("{"):
            return Node("map", None, self._entries(), position=token.position)
        self._take(".")
        name = self.expect("name")
        if name.text in _RESERVED:
            raise CelError(f"syntax error at {name.position + 1}: {name.text!r} is a reserved word")
        if self._take("("):
            return Node("call", name.text, (None, *self._list(")")), position=name.position)
        return Node("name", name.text, position=name.position)

    def _entries(self) -> tuple[tuple[Node, Node], ...]:
        found = []
        while not self._take("}"):
            key = self.expression()
            self.expect(":")
            found.append((key, self.expression()))
            if not self._take(","):
                self.expect("}")
                break
        return tuple(found)
