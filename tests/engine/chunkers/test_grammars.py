"""Definitions by language: kind and qualified name of every symbol of a small source."""

import pytest

from cortex.engine.chunkers import cut

SOURCES = {
    "python": (
        "import os\nLIMIT = 3\nname = 'x'\n\n@decorator\nclass A(B):\n    field: int = 1\n\n    def m(self):\n        def inner(): ...\n"
        "        return inner\n\nif True:\n    async def f(x): ...\n",
        "constant LIMIT, variable name, class A, variable A.field, method A.m, function A.m.inner, function f",
    ),
    "javascript": (
        "export default class A extends B {\n  static z = 1;\n  #p = () => 1;\n  constructor() {}\n  get foo() { return 1; }\n}\n"
        "export const X = (a) => a, Y = 3;\nexport function f() { const g = () => 1; let local = 2; }\n"
        "const obj = { m() {}, n: function () {} };\nmodule.exports.h = function () {};\nFoo.prototype.bar = function (x) {};\n"
        "(function () { function inner() {} })();\nfunction* gen() {}\n",
        "class A, variable A.z, method A.p, method A.constructor, method A.foo, function X, variable Y, function f, function f.g, "
        "variable obj, method obj.m, function obj.n, function h, function Foo.bar, function inner, function gen",
    ),
    "typescript": (
        "export interface I<T> { m(x: number): void }\nexport type T1 = { a: number };\nexport enum E { A }\n"
        "export abstract class C<T> {\n  private x: number = 1;\n  abstract foo(): void;\n  bar = (z: number) => z;\n"
        "  @dec() baz<T>(a: T): T { return a; }\n}\nnamespace N { export function f(): void {} }\n"
        "export const h = async <T,>(x: T): Promise<T> => x;\ndeclare function k(a: number): string;\n",
        "interface I, method I.m, type T1, enum E, class C, variable C.x, method C.foo, method C.bar, method C.baz, module N, "
        "function N.f, function h, function k",
    ),
    "tsx": (
        "export const App = () => <div>{1}</div>;\nfunction P() { return <p/>; }\n",
        "function App, function P",
    ),
    "go": (
        "package main\nconst A = 1\nvar V = 2\ntype S struct {\n\tX int\n}\ntype I interface { M(x int) error }\n"
        "func (s *S) M(x int) error { return nil }\nfunc (g Gen[T]) N() {}\nfunc f[T any](a int) {}\n",
        "constant A, variable V, struct S, interface I, method I.M, method S.M, method Gen.N, function f",
    ),
    "rust": (
        "pub struct S<T> { a: T }\npub enum E { A }\npub trait T { fn m(&self); }\nimpl<T> S<T> { pub fn new() -> Self { S } }\n"
        "impl fmt::Display for S<i32> { fn fmt(&self) {} }\nmod tests { #[test] fn t() {} }\nconst C: i32 = 1;\ntype Al = i32;\n"
        "macro_rules! mm { () => {} }\npub async fn f() { fn g() {} }\n",
        "struct S, enum E, trait T, method T.m, method S.new, method S.fmt, module tests, function tests.t, constant C, type Al, "
        "macro mm, function f, function f.g",
    ),
    "java": (
        "package a.b;\n@Ann\npublic class A<T> {\n  static final int X = 1, Z = 2;\n  public A() {}\n  @Override public String m(int a) { int l = 1; return l; }\n"
        "  enum E { P }\n  interface I { int f(); }\n  record R(int a) {}\n}\n",
        "class A, field A.X, field A.Z, method A.A, method A.m, enum A.E, constant A.E.P, interface A.I, method A.I.f, class A.R",
    ),
    "kotlin": (
        "class K(val x: Int) {\n  val y = 1\n  companion object {\n    fun make() = K(1)\n  }\n  fun m(a: Int): Int { return a }\n}\n"
        "object O {\n  fun f() {}\n}\ninterface If {\n  fun g()\n}\nenum class E { A }\nfun String.ext(a: Int): String = this\n",
        "class K, property K.y, method K.make, method K.m, class O, method O.f, interface If, method If.g, enum E, constant E.A, function ext",
    ),
    "scala": (
        "class A(x: Int) {\n  val y = 1\n  def m(a: Int): Int = a\n}\nobject O { def f() = 1 }\ntrait Tr { def h: Int }\n",
        "class A, variable A.y, method A.m, class O, method O.f, trait Tr, method Tr.h",
    ),
    "c": (
        "#define MAX 10\ntypedef struct { int a; } P;\nstruct s { int x; };\nenum e { A };\nint proto(int a);\nstruct s *g;\n"
        "static int *f(int a, char **b) { return 0; }\n#ifdef X\nint cond(void) { return 1; }\n#endif\n",
        "macro MAX, struct P, struct s, enum e, variable g, function f, function cond",
    ),
    "cpp": (
        "namespace a::b {\ntemplate <typename T>\nclass C : public D {\n public:\n  void m() const { }\n  int x;\n};\n}\n"
        "a::b::C::C() : x(1) {}\nvoid C<T>::m() const { }\nbool C::operator==(const C& o) const { return true; }\nint& f(int a) { return a; }\n"
        "template <class T> T g(T t) { return t; }\nusing X = int;\nC::~C() {}\n",
        "module a.b, class a.b.C, method a.b.C.m, field a.b.C.x, method a.b.C.C, method C.m, method C.operator==, function f, function g, "
        "type X, method C.~C",
    ),
    "objc": (
        "@interface A : B\n- (void)m:(int)a with:(int)b;\n@end\n@implementation A\n- (void)m:(int)a with:(int)b { }\n+ (id)s { return nil; }\n@end\n"
        "static int f(int a) { return a; }\n",
        "interface A, class A, method A.m:with:, method A.s, function f",
    ),
    "csharp": (
        "namespace A.B {\n  public class C<T> : D {\n    const int K = 1;\n    public int P { get; set; }\n    public C() {}\n"
        "    public async Task<int> M(int a) { void L() {} return 1; }\n    enum E { A }\n    interface I { void F(); }\n  }\n}\n",
        "module A.B, class A.B.C, field A.B.C.K, property A.B.C.P, method A.B.C.C, method A.B.C.M, function A.B.C.M.L, enum A.B.C.E, "
        "constant A.B.C.E.A, interface A.B.C.I, method A.B.C.I.F",
    ),
    "ruby": (
        "module M\n  class A < B::C\n    CONST = 1\n    def m(a)\n      a\n    end\n    def self.s; end\n    private def pp; end\n  end\nend\ndef top; end\n",
        "module M, class M.A, constant M.A.CONST, method M.A.m, method M.A.s, method M.A.pp, method top",
    ),
    "php": (
        "<?php\nabstract class E extends F {\n  const K = 1;\n  public int $x = 2;\n  public function m(int $a): string { return ''; }\n}\n"
        "interface I { function f(); }\ntrait T { static function g() {} }\nfunction top($a) {}\n$var = function() {};\n",
        "class E, constant E.K, property E.x, method E.m, interface I, method I.f, trait T, method T.g, function top, function var",
    ),
    "swift": (
        "public class A: B {\n  let x: Int = 1\n  init(a: Int) {}\n  func m<T>(_ a: T) -> Int { return 1 }\n}\nstruct S { var z = 1 }\n"
        "protocol P { func f() -> Int }\nextension A: D { func ext() {} }\nenum E { case a }\nfunc top() {}\n",
        "class A, property A.x, method A.init, method A.m, struct S, property S.z, interface P, method P.f, method A.ext, enum E, constant E.a, function top",
    ),
    "elixir": (
        'defmodule A.B do\n  @doc "F."\n  def f(1), do: 1\n  def f(a) when a > 1 do\n    a\n  end\n  defp g(x), do: x\n  defmacro m(x) do\n    x\n  end\nend\n',
        "module A.B, function A.B.f, function A.B.g, macro A.B.m",
    ),
    "haskell": (
        "module A where\nf :: Int -> Int\nf 0 = 1\nf x = x\ndata D = A1 | B1\nclass C a where\n  m :: a -> Int\n  m _ = 1\nx = 3\n",
        "function f, type D, class C, method C.m, variable x",
    ),
    "lua": (
        "local M = {}\nfunction M.f(a) return a end\nfunction M:g(b) end\nlocal function h() end\nM.k = function(x) end\n",
        "variable M, function M.f, function M.g, function h, function M.k",
    ),
    "bash": (
        "f() {\n  local x=1\n}\nfunction g { :; }\nX=1\nexport Y=2\n",
        "function f, function g, variable X, variable Y",
    ),
    "sql": (
        "CREATE TABLE IF NOT EXISTS s.t (id INT);\nCREATE VIEW v AS SELECT 1;\n"
        "CREATE OR REPLACE FUNCTION f(a INT) RETURNS INT AS $$ BEGIN RETURN 1; END; $$ LANGUAGE plpgsql;\n",
        "table s.t, view v, function f",
    ),
    "ocaml": (
        "let f a b = let local = a in local\ntype t = A | B of int\nmodule M = struct\n  let z = 1\nend\n",
        "function f, type t, module M, function M.z",
    ),
    "ocaml-interface": ("val f : int -> int\ntype t\n", "function f, type t"),
    "julia": (
        "module A\nfunction f(a::Int, b)::Int\n  a\nend\ng(x) = x\nstruct S{T} <: U\n  a::Int\nend\nconst LIMIT = 1\nend\n",
        "module A, function A.f, function A.g, struct A.S, constant A.LIMIT",
    ),
    "zig": (
        'pub fn f(a: i32) i32 { return a; }\npub const S = struct { a: i32, pub fn m(self: S) void {} };\ntest "adds" { }\n',
        "function f, struct S, field S.a, method S.m, test adds",
    ),
    "dart": (
        "class A<T> extends B {\n  final int x = 1;\n  A(this.x);\n  int get g => 1;\n  void m(int a) {\n    print(a);\n  }\n}\nvoid top(int a) {\n  return;\n}\n",
        "class A, variable A.x, method A.A, method A.g, method A.m, function top",
    ),
    "powershell": (
        "function Get-X {\n  param($a)\n  $a\n}\nclass A : B {\n  [int]$x = 1\n  [void] M([int]$a) { }\n}\nenum E { A; B }\n",
        "function Get-X, class A, property A.x, method A.M, enum E",
    ),
    "hcl": (
        'resource "aws_x" "y" {\n  a = 1\n}\nvariable "v" {}\nlocals {}\n',
        "block aws_x.y, block variable.v, block locals",
    ),
    "groovy": (
        "class A extends B {\n  static final int X = 1\n  def m(String a) { a }\n}\ndef top(int a) { a }\n",
        "class A, field A.X, method A.m, function top",
    ),
    "css": (
        ".b > a:hover, #c { color: red; }\n@media print { .d { x: y; } }\n",
        "rule .b > a:hover, #c; rule @media print",
    ),
}


@pytest.mark.parametrize("language", SOURCES)
def test_every_definition_is_a_symbol(language):
    source, expected = SOURCES[language]
    found = [f"{symbol.kind} {symbol.qualified}" for symbol in cut(source, "x", language).symbols]
    assert found == expected.split("; " if language == "css" else ", ")


@pytest.mark.parametrize("language", SOURCES)
def test_symbol_has_the_parent_and_lines_of_its_qualified_name(language):
    source, _ = SOURCES[language]
    lines = source.split("\n")
    for symbol in cut(source, "x", language).symbols:
        assert symbol.qualified == f"{symbol.parent}.{symbol.name}".lstrip(".") or language == "css"
        assert 1 <= symbol.start_line <= symbol.end_line <= len(lines)
        spoken = "\n".join(lines[symbol.start_line - 1 : symbol.end_line])
        assert symbol.name.partition(":")[0].split()[0] in spoken


def test_at_least_25_languages_have_definitions():
    assert len(SOURCES) >= 25


def test_a_method_body_in_dart_belongs_to_its_signature():
    symbols = {s.name: s for s in cut(SOURCES["dart"][0], "x.dart", "dart").symbols}
    assert (symbols["m"].start_line, symbols["m"].end_line) == (5, 7)
    assert (symbols["top"].start_line, symbols["top"].end_line) == (9, 11)


def test_several_clauses_of_a_function_are_one_symbol():
    symbols = {s.name: s for s in cut(SOURCES["elixir"][0], "x.ex", "elixir").symbols}
    assert (symbols["f"].start_line, symbols["f"].end_line) == (3, 6)
