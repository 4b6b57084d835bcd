#!/usr/bin/env python3
"""Finds circles between the engine's files, of two kinds.

Files import each other. Circles of imports are not allowed: a component must not know the engine that it is part of
(ARCHITECTURE.md, "The rooms of a shard").

The files with an `impl Engine` also call each other's methods. Circles of calls are not allowed either: a file that is
called says what is to be done next, and the caller does it.

Prints each finding as 'file: what, what to do'. Tests are not checked.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "crates/engine/src"

# Callers and what they call, which the engine cannot do without: work is planned, the plan is started, and its end is
# settled. If one of these calls is not found, the search for calls is broken and would find no circle either.
KNOWN_CALLS = [
    ("shard::plans::dispatch", "shard::plans::make"),
    ("shard::plans::dispatch", "shard::plans::run"),
    ("shard::plans::run", "shard::plans::settle"),
]


def production_code(path: Path) -> str:
    """The content of the file without tests and comments."""
    code = path.read_text().split("#[cfg(test)]\nmod tests {")[0]
    return "\n".join(line for line in code.split("\n") if not line.lstrip().startswith("//"))


def module_of(path: Path) -> str:
    """`control/mod.rs` and `control.rs` are both `control`."""
    parts = list(path.relative_to(SOURCE).with_suffix("").parts)
    return "::".join(parts[:-1] if parts[-1] == "mod" else parts)


def read_modules() -> dict[str, tuple[Path, str]]:
    """Path and code of every module that is not a test."""
    modules = {}
    for path in sorted(SOURCE.rglob("*.rs")):
        module = module_of(path)
        if "tests" not in module.split("::"):
            modules[module] = (path, production_code(path))
    return modules


def imports(module: str, code: str, modules: dict) -> set[str]:
    """The other modules whose paths occur in a module."""
    parent = "".join(part + "::" for part in module.split("::")[:-1])
    # Who may see something is no import.
    code = re.sub(r"\bpub\(in [\w:]+\)", "pub", code)
    code = re.sub(r"\bsuper::", lambda _: "crate::" + parent, code)
    code = re.sub(r"\bself::", lambda _: f"crate::{module}::", code)
    found = set()
    for path in re.findall(r"\bcrate::(\w+(?:::\w+)*)", code):
        parts = path.split("::")
        prefixes = ("::".join(parts[:length]) for length in range(len(parts), 0, -1))
        named = next((prefix for prefix in prefixes if prefix in modules), module)
        found.add(named)
    return found - {module}


def engine_methods(code: str) -> set[str]:
    """Names of the methods that a file gives to `Engine`."""
    blocks = re.findall(r"^impl Engine \{\n(.*?)^\}", code, re.MULTILINE | re.DOTALL)
    return {name for block in blocks for name in re.findall(r"\bfn (\w+)", block)}


def calls(modules: dict) -> dict[str, set[str]]:
    """For each file, the files whose methods of `Engine` it calls."""
    home = {name: module for module, (_, code) in modules.items() for name in engine_methods(code)}
    graph = {}
    for module, (_, code) in modules.items():
        if engine_methods(code):
            called = set(re.findall(r"\bself\s*\.(\w+)\(", code)) & home.keys()
            graph[module] = {home[name] for name in called} - {module}
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that all reach each other."""

    def reached(start: str) -> set[str]:
        seen, waiting = set(), [start]
        while waiting:
            for node in graph[waiting.pop()] - seen:
                seen.add(node)
                waiting.append(node)
        return seen

    reach = {node: reached(node) for node in graph}
    groups = {
        tuple(sorted(other for other in graph if other in reach[node] and node in reach[other]))
        for node in graph
        if node in reach[node]
    }
    return [list(group) for group in sorted(groups)]


def main() -> None:
    modules = read_modules()
    assert len(modules) > 50, f"{SOURCE} has only {len(modules)} modules"
    importing = {module: imports(module, code, modules) for module, (_, code) in modules.items()}
    calling = calls(modules)
    assert len(calling) > 30, f"only {len(calling)} files in {SOURCE} have methods of the engine"
    for caller, called in KNOWN_CALLS:
        is_found = called in calling.get(caller, ())
        assert is_found, f"no call from {caller} to {called} is found; if there is none any more, correct KNOWN_CALLS"

    def report(graph: dict[str, set[str]], what: str, advice: str) -> None:
        for group in circles(graph):
            files = [str(modules[module][0].relative_to(ROOT)) for module in group]
            print(f"{files[0]}: these files {what} each other in a circle: {', '.join(files)}. {advice}")

    report(importing, "import", "Move what they share into a file below them.")
    report(calling, "call", "Return what is to be done instead of calling back, or move functions to where they belong.")


if __name__ == "__main__":
    sys.exit(main())
