# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""A source file as bytes and as a syntax tree at once, so that edits leave everything else byte for byte.

The tree of ``ast`` counts columns in UTF-8 bytes, so the text is held as UTF-8 (``text``) whatever the file's own
encoding; ``encoded`` gives it back in the file's encoding, byte order mark included. Line endings are never touched.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"

Splice = tuple[int, int, bytes]
Definition = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Conflict(Exception):
    """An edit cannot be made here; the message says why."""


class Source:
    """The text of one file. Python or not: a tree is made only when an edit asks for it."""

    def __init__(self, raw: bytes, path: str) -> None:
        """:raises Conflict: when the file is not text in its own encoding."""
        self.path = path
        self.bom = _BOM if raw.startswith(_BOM) else b""
        self.encoding = self._encoding_of(raw)
        try:
            self.text = raw[len(self.bom) :].decode(self.encoding).encode()
        except UnicodeDecodeError as error:
            raise Conflict(f"{path} is not text in {self.encoding}: {error}") from error
        self._tree: ast.Module | None = None
        self._starts: list[int] | None = None

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    def _encoding_of(self, raw: bytes) -> str:
        if not self.is_python:
            return "utf-8"
        try:
            encoding, dummy = tokenize.detect_encoding(io.BytesIO(raw).readline)
        except SyntaxError as error:
            raise Conflict(f"{self.path} is not Python: {error}") from error
        return "utf-8" if encoding == "utf-8-sig" else encoding

    @property
    def tree(self) -> ast.Module:
        """:raises Conflict: when the file does not compile."""
        if self._tree is None:
            try:
                self._tree = ast.parse(self.text.decode())
            except (SyntaxError, ValueError) as error:
                raise Conflict(f"{self.path} is not valid Python: {error}") from error
        return self._tree

    @property
    def newline(self) -> bytes:
        """The line ending that the file uses (its first)."""
        found = _LINE_END.search(self.text)
        return found[0] if found else b"\n"

    def encoded(self, text: bytes) -> bytes:
        """``text`` (UTF-8) in the encoding of the file.

        :raises Conflict: when it holds a character that the encoding lacks.
        """
        try:
            return self.bom + text.decode().encode(self.encoding)
        except UnicodeEncodeError as error:
            raise Conflict(
                f"{self.path} is written in {self.encoding}, which lacks {error.object[error.start]!r}"
            ) from (error)

    def offset(self, line: int, column: int) -> int:
        """Where in ``text`` a position of the tree is (lines from 1, columns in bytes)."""
        if self._starts is None:
            self._starts = [0, *(found.end() for found in _LINE_END.finditer(self.text))]
        return self._starts[line - 1] + column

    def start(self, node: Any) -> int:
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: Any) -> int:
        return self.offset(node.end_lineno, node.end_col_offset)

    def line_end(self, line: int) -> int:
        """The offset behind the last character of a line, before its line ending."""
        return self.line_end_from(self.offset(line, 0))

    def line_end_from(self, offset: int) -> int:
        """The end of the line that an offset lies in."""
        found = _LINE_END.search(self.text, offset)
        return found.start() if found else len(self.text)

    def indent_of_line(self, line: int) -> bytes:
        start = self.offset(line, 0)
        found = re.compile(rb"[ \t\f]*").match(self.text, start)
        return found[0] if found else b""

    def spliced(self, splices: Iterable[Splice]) -> bytes:
        """``text`` with parts replaced (offsets refer to the text before; parts must not overlap)."""
        pieces: list[bytes] = []
        last = 0
        for start, end, new in sorted(splices, key=lambda splice: splice[:2]):
            pieces += [self.text[last:start], new]
            last = end
        return b"".join([*pieces, self.text[last:]])


def is_plain(node: Any) -> bool:
    return not getattr(node, "decorator_list", None)


def first_line(node: Any) -> int:
    """The line on which a statement begins, its decorators included."""
    return node.lineno if is_plain(node) else node.decorator_list[0].lineno


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements of one namespace: those inside ``if``, ``try``, ``with`` and loops too, not those of inner
    functions and classes. What only type checkers see is not there when the program runs."""
    for node in body:
        yield node
        if isinstance(node, Definition):
            continue
        for name in ("orelse",) if _for_type_checkers(node) else ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, name, ()))
        for part in [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]:
            yield from statements(part.body)


def _for_type_checkers(node: ast.stmt) -> bool:
    test = node.test if isinstance(node, ast.If) else None
    return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"


def scopes(tree: ast.Module, qualname: str, kinds: tuple[type, ...] = Definition) -> list[Any]:
    """Every definition with this dotted name (``Class.method``): several, where they are conditional."""
    found: list[Any] = [tree]
    parts = qualname.split(".")
    for number, part in enumerate(parts):
        wanted = kinds if number == len(parts) - 1 else Definition
        found = [
            node
            for scope in found
            for node in statements(scope.body)
            if isinstance(node, wanted) and getattr(node, "name", None) == part
        ]
    return found


def same(left: ast.AST, right: ast.AST) -> bool:
    """Whether two trees mean the same: positions and docstrings do not count."""
    return _shape(left) == _shape(right)


def _shape(node: ast.AST) -> str:
    return ast.dump(_Undocumented().visit(deepcopy(node)))


class _Undocumented(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, Definition) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        return node
