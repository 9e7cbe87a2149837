"""Roles of each grammar's node types, as one table; grammars are loaded on demand.

A row of `RULES` maps a role to node types:
    kind        the node defines something of that kind, named by `name_extractors.named`;
                "value" is a constant or a variable, by its spelling;
                "callable" counts only with one of `values`
    kind/namer  the same, named by another function of name_extractors.py
    in          look through it for definitions, also inside functions
    wrap        look through it; its first definition begins where it begins
    hold        look through it, but not inside functions (that would cost the most time)
    scope       look through it as if it were a function (callbacks, immediately called functions)
    tail        the body of the previous definition, where a grammar makes them siblings
    lead        comments, decorators and attributes: they belong to the following definition
    bodies      child node types with a definition's body, where there is no `body` field
    keywords    word=kind: such a word before the name of a "class" makes it that kind
    values      node type=kind: a variable with such a value is a definition of that kind
Kinds in `LIGHT` are small by nature: they are symbols, but share a chunk with their neighbours.

Knows nothing of chunks (code.py). Road not taken: queries (.scm files); a hand-written walk that
skips expressions costs a third.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from functools import cache

from tree_sitter import Language, Parser

from cortex.engine.chunkers import name_extractors
from cortex.engine.chunkers.name_extractors import Namer

LIGHT = frozenset("constant variable value callable field property macro type rule".split())
# Languages in which the clauses of one function follow one another.
JOINING = frozenset({"elixir", "haskell"})
IN, WRAP, HOLD, SCOPE, LEAD, TAIL, DEFINE, VALUE, ELIXIR, ERROR = range(10)
# Kind of a node with text that the grammar can't parse, in every grammar.
ERROR_KIND = 65_535
Rule = tuple[int, str, Namer]


@dataclass(frozen=True, slots=True)
class Grammar:
    """A loaded grammar: its parser and the rules for node kinds outside and inside functions."""

    parser: Parser
    outside: dict[int, Rule]
    inside: dict[int, Rule]
    bodies: frozenset[str]
    values: dict[str, str]
    body_field: int
    keywords: dict[bytes, str]
    joins: bool


@cache
def has_grammar(language: str) -> bool:
    """True if `language` is cut by its syntax tree.

    The largest grammars come with the extra `languages`.
    """
    return language in RULES and importlib.util.find_spec(_module_of(language)) is not None


def _module_of(language: str) -> str:
    return MODULES.get(language, f"tree_sitter_{language}").partition(".")[0]


@cache
def load(language: str) -> Grammar:
    """Load the grammar of `language`; its wheel is imported at the first call."""
    function = MODULES.get(language, "").partition(".")[2] or "language"
    grammar = Language(getattr(importlib.import_module(_module_of(language)), function)())
    outside: dict[str, Rule] = {}
    inside: dict[str, Rule] = {}
    bodies: frozenset[str] = frozenset()
    values: dict[str, str] = {}
    keywords: dict[bytes, str] = {}
    for role, types in RULES[language].items():
        if role == "bodies":
            bodies = frozenset(types.split())
        elif role == "values":
            values = _pairs(types)
        elif role == "keywords":
            keywords = {word.encode(): kind for word, kind in _pairs(types).items()}
        else:
            rule = _rule(role)
            outside |= dict.fromkeys(types.split(), rule)
            if rule[0] not in (HOLD, ELIXIR):
                inside |= dict.fromkeys(types.split(), rule)
    kinds = {
        kind_id: grammar.node_kind_for_id(kind_id) or ""
        for kind_id in range(grammar.node_kind_count)
        if grammar.node_kind_is_named(kind_id)
    }
    error: dict[int, Rule] = {ERROR_KIND: (ERROR, "", name_extractors.named)}
    return Grammar(
        Parser(grammar),
        error | {kind_id: outside[kind] for kind_id, kind in kinds.items() if kind in outside},
        error | {kind_id: inside[kind] for kind_id, kind in kinds.items() if kind in inside},
        bodies,
        values,
        grammar.field_id_for_name("body") or 0,
        keywords,
        language in JOINING,
    )


def _pairs(text: str) -> dict[str, str]:
    return {left: right for left, _, right in (pair.partition("=") for pair in text.split())}


def _rule(role: str) -> Rule:
    actions = {
        "in": IN,
        "wrap": WRAP,
        "hold": HOLD,
        "scope": SCOPE,
        "lead": LEAD,
        "tail": TAIL,
        "elixir": ELIXIR,
    }
    if role in actions:
        return actions[role], "", name_extractors.named
    kind, _, namer = role.partition("/")
    return (VALUE if kind in LIGHT else DEFINE), kind, getattr(name_extractors, namer or "named")


MODULES = {
    "csharp": "tree_sitter_c_sharp",
    "typescript": "tree_sitter_typescript.language_typescript",
    "tsx": "tree_sitter_typescript.language_tsx",
    "php": "tree_sitter_php.language_php",
    "ocaml": "tree_sitter_ocaml.language_ocaml",
    "ocaml-interface": "tree_sitter_ocaml.language_ocaml_interface",
}

_JAVASCRIPT = {
    "function": "function_declaration generator_function_declaration function_signature",
    "method": "method_definition",
    "class": "class_declaration",
    "value/assigned": "variable_declarator field_definition",
    "callable/assigned": "assignment_expression pair",
    "wrap": "export_statement lexical_declaration variable_declaration",
    "in": "statement_block if_statement else_clause try_statement catch_clause",
    "hold": "expression_statement call_expression arguments parenthesized_expression object "
    "unary_expression",
    "scope": "arrow_function function_expression",
    "lead": "comment decorator",
    "values": "arrow_function=function function_expression=function "
    "generator_function=function class=class object=value",
}
_TYPESCRIPT = _JAVASCRIPT | {
    "method": "method_definition abstract_method_signature method_signature",
    "class": "class_declaration abstract_class_declaration",
    "interface": "interface_declaration",
    "enum": "enum_declaration",
    "module": "internal_module module",
    "type": "type_alias_declaration",
    "value/assigned": _JAVASCRIPT["value/assigned"] + " public_field_definition",
    "wrap": _JAVASCRIPT["wrap"] + " ambient_declaration",
}
_C = {
    "function/declared": "function_definition",
    "struct": "struct_specifier union_specifier",
    "enum": "enum_specifier",
    "type/declared": "type_definition",
    "macro": "preproc_def preproc_function_def",
    "variable/declared": "declaration",
    "in": "preproc_ifdef preproc_if preproc_else preproc_elif linkage_specification "
    "declaration_list",
    "lead": "comment attribute_declaration",
    "values": "struct_specifier=struct union_specifier=struct enum_specifier=enum",
}
_JAVA = {
    "class": "class_declaration record_declaration",
    "interface": "interface_declaration annotation_type_declaration",
    "enum": "enum_declaration",
    "method": "method_declaration constructor_declaration compact_constructor_declaration "
    "annotation_type_element_declaration",
    "field": "variable_declarator",
    "constant": "enum_constant",
    "hold": "field_declaration enum_body_declarations constant_declaration",
    "in": "block",
    "lead": "line_comment block_comment",
}

RULES: dict[str, dict[str, str]] = {
    "python": {
        "function": "function_definition",
        "class": "class_definition",
        "value/assigned": "assignment",
        "type": "type_alias_statement",
        "wrap": "decorated_definition",
        "in": "block if_statement else_clause elif_clause try_statement except_clause "
        "finally_clause "
        "with_statement for_statement while_statement",
        "hold": "expression_statement",
        "lead": "comment decorator",
    },
    "javascript": _JAVASCRIPT,
    "typescript": _TYPESCRIPT,
    "tsx": _TYPESCRIPT,
    "go": {
        "function": "function_declaration",
        "method/receiver": "method_declaration",
        "type": "type_spec type_alias",
        "constant": "const_spec",
        "variable": "var_spec",
        "method": "method_elem",
        "wrap": "type_declaration const_declaration var_declaration",
        "hold": "var_spec_list",
        "lead": "comment",
        "values": "struct_type=struct interface_type=interface",
    },
    "rust": {
        "function": "function_item function_signature_item",
        "struct": "struct_item union_item",
        "enum": "enum_item",
        "trait": "trait_item",
        "impl/implemented": "impl_item",
        "module": "mod_item",
        "constant": "const_item static_item",
        "type": "type_item associated_type",
        "macro": "macro_definition",
        "in": "block expression_statement foreign_mod_item declaration_list",
        "lead": "line_comment block_comment attribute_item",
    },
    "java": _JAVA,
    "groovy": _JAVA | {"function": "function_definition", "hold": _JAVA["hold"] + " closure"},
    "kotlin": {
        "class": "class_declaration object_declaration companion_object",
        "function": "function_declaration",
        "property/bound": "property_declaration",
        "type": "type_alias",
        "constant": "enum_entry",
        "in": "function_body block",
        "lead": "line_comment block_comment comment multiline_comment",
        "bodies": "class_body function_body enum_class_body",
        "keywords": "interface=interface enum=enum",
    },
    "scala": {
        "class": "class_definition object_definition",
        "trait": "trait_definition",
        "enum": "enum_definition",
        "function": "function_definition function_declaration",
        "impl": "given_definition",
        "type": "type_definition",
        "value/assigned": "val_definition var_definition val_declaration var_declaration",
        "in": "block extension_definition package_object template_body",
        "hold": "enum_case_definitions",
        "constant": "simple_enum_case full_enum_case",
        "lead": "comment block_comment annotation",
    },
    "c": _C,
    "cpp": _C
    | {
        "class": "class_specifier",
        "module": "namespace_definition",
        "type": "alias_declaration concept_definition",
        "field/declared": "field_declaration",
        "wrap": "template_declaration",
        "values": _C["values"] + " class_specifier=class",
    },
    "objc": _C
    | {
        "interface": "class_interface protocol_declaration",
        "class": "class_implementation",
        "method/selector": "method_definition",
        "in": _C["in"] + " implementation_definition",
    },
    "csharp": {
        "class": "class_declaration record_declaration",
        "struct": "struct_declaration record_struct_declaration",
        "interface": "interface_declaration",
        "enum": "enum_declaration",
        "module": "namespace_declaration",
        "method": "method_declaration constructor_declaration destructor_declaration "
        "operator_declaration indexer_declaration",
        "function": "local_function_statement",
        "property": "property_declaration event_declaration",
        "field": "variable_declarator",
        "constant": "enum_member_declaration",
        "type": "delegate_declaration",
        "in": "declaration_list block global_statement preproc_if preproc_else preproc_elif",
        "hold": "field_declaration event_field_declaration variable_declaration",
        "lead": "comment",
    },
    "ruby": {
        "module": "module",
        "class": "class",
        "method": "method singleton_method",
        "constant/ruby_constant": "assignment",
        "in": "body_statement singleton_class begin if unless then else",
        "hold": "call argument_list do_block block",
        "lead": "comment",
    },
    "php": {
        "class": "class_declaration",
        "interface": "interface_declaration",
        "trait": "trait_declaration",
        "enum": "enum_declaration",
        "function": "function_definition",
        "method": "method_declaration",
        "constant": "const_element enum_case",
        "property/assigned": "property_element",
        "callable/assigned": "assignment_expression",
        "module": "namespace_definition",
        "in": "compound_statement if_statement",
        "hold": "const_declaration property_declaration expression_statement",
        "lead": "comment",
        "values": "anonymous_function=function arrow_function=function",
    },
    "swift": {
        "class": "class_declaration",
        "interface": "protocol_declaration",
        "function": "function_declaration protocol_function_declaration",
        "method/special": "init_declaration deinit_declaration subscript_declaration",
        "property/last_word": "property_declaration protocol_property_declaration",
        "constant": "enum_entry",
        "type": "typealias_declaration",
        "in": "function_body statements",
        "lead": "comment multiline_comment",
        "keywords": "struct=struct enum=enum extension=impl",
    },
    "elixir": {"elixir": "call", "in": "do_block", "lead": "comment unary_operator"},
    "haskell": {
        "function": "function",
        "value": "bind",
        "class": "class",
        "impl": "instance",
        "type": "data_type newtype type_synonym type_family",
        "in": "declarations",
        "lead": "comment haddock signature pragma",
        "bodies": "class_declarations instance_declarations",
    },
    "lua": {
        "function": "function_declaration",
        "value/listed": "assignment_statement",
        "hold": "variable_declaration",
        "in": "block if_statement do_statement",
        "lead": "comment",
        "values": "function_definition=function",
    },
    "bash": {
        "function": "function_definition",
        "variable": "variable_assignment",
        "hold": "declaration_command",
        "in": "if_statement else_clause elif_clause compound_statement subshell case_statement "
        "case_item",
        "lead": "comment",
    },
    "sql": {
        "table/referenced": "create_table",
        "view/referenced": "create_view create_materialized_view",
        "function/referenced": "create_function create_procedure",
        "type/referenced": "create_type create_index create_sequence create_schema "
        "create_trigger create_role create_extension",
        "in": "statement transaction block",
        "lead": "comment marginalia",
    },
    "ocaml": {
        "function/assigned": "let_binding",
        "type": "type_binding exception_definition constructor_declaration",
        "module": "module_binding module_type_definition",
        "class": "class_binding",
        "method": "method_definition",
        "function": "external value_specification",
        "hold": "value_definition type_definition module_definition class_definition",
        "in": "structure signature object_expression",
        "lead": "comment attribute",
    },
    "julia": {
        "module": "module_definition",
        "function/signed": "function_definition",
        "macro/signed": "macro_definition",
        "struct/signed": "struct_definition",
        "type/signed": "abstract_definition primitive_definition",
        "value/signed": "assignment",
        "hold": "const_statement",
        "in": "if_statement block macrocall_expression macro_argument_list",
        "lead": "line_comment block_comment string_literal",
        "values": "call_expression=function",
    },
    "zig": {
        "function": "function_declaration",
        "test/described": "test_declaration",
        "value": "variable_declaration",
        "field": "container_field",
        "in": "block",
        "lead": "comment doc_comment",
        "values": "struct_declaration=struct enum_declaration=enum union_declaration=struct "
        "error_set_declaration=enum opaque_declaration=struct",
    },
    "dart": {
        "class": "class_definition mixin_declaration extension_declaration "
        "extension_type_declaration",
        "enum": "enum_declaration",
        "function": "function_signature getter_signature setter_signature "
        "local_function_declaration",
        "method": "constructor_signature factory_constructor_signature "
        "constant_constructor_signature operator_signature",
        "value": "static_final_declaration initialized_identifier",
        "constant": "enum_constant",
        "type": "type_alias",
        "tail": "function_body",
        "in": "method_signature block class_body enum_body extension_body lambda_expression",
        "hold": "declaration static_final_declaration_list initialized_identifier_list",
        "lead": "comment documentation_comment annotation",
        "bodies": "class_body",
    },
    "powershell": {
        "function": "function_statement",
        "class": "class_statement",
        "enum": "enum_statement",
        "method": "class_method_definition",
        "property": "class_property_definition",
        "in": "statement_list script_block script_block_body named_block statement_block",
        "lead": "comment",
        "bodies": "script_block",
    },
    "hcl": {"block/labels": "block", "hold": "body", "lead": "comment"},
    "css": {
        "rule/first_line": "rule_set media_statement keyframes_statement supports_statement "
        "at_rule",
        "in": "block",
        "lead": "comment",
    },
}
RULES["ocaml-interface"] = RULES["ocaml"]
