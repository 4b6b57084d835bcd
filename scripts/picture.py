#!/usr/bin/env python3
"""Draws a terminal's text as an SVG picture: fullstripe demo | scripts/picture.py > docs/demo.svg

The picture follows the reader's light or dark theme. Commands ("$ ...") and results ("✓ ...") are coloured; all other
lines are drawn as they are.
"""
import html
import sys

CELL, LINE, MARGIN = 7.6, 17, 18
STYLE = """
  .page { fill: #f7f8f9; stroke: #d0d5da } text { fill: #24292f; white-space: pre;
    font: 12.6px ui-monospace, 'DejaVu Sans Mono', 'Liberation Mono', Menlo, Consolas, monospace }
  .command { fill: #0550ae } .done { fill: #1a7f37 } .title { fill: #24292f; font-weight: bold }
  @media (prefers-color-scheme: dark) {
    .page { fill: #14171a; stroke: #30363d } text { fill: #c9d1d9 } .title { fill: #f0f3f6 }
    .command { fill: #79b8ff } .done { fill: #56d364 } }
"""


def kind(line: str) -> str:
    bare = line.strip()
    if bare.startswith("$ "):
        return "command"
    if bare.startswith("✓") or bare.startswith("demo passed"):
        return "done"
    return "title" if line[:2].strip().isdigit() else ""


def main() -> None:
    lines = [line.rstrip("\n") for line in sys.stdin]
    width = max(map(len, lines)) * CELL + 2 * MARGIN
    height = len(lines) * LINE + 2 * MARGIN
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}">')
    print(f"<style>{STYLE}</style>")
    print(f'<rect class="page" x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="8"/>')
    for row, line in enumerate(lines):
        if not line:
            continue
        shown = line.lstrip(" ")
        x = MARGIN + (len(line) - len(shown)) * CELL
        y = MARGIN + row * LINE + 13
        length = f'textLength="{len(shown) * CELL:.1f}" lengthAdjust="spacingAndGlyphs"'
        print(f'<text class="{kind(line)}" x="{x:.1f}" y="{y}" {length}>{html.escape(shown)}</text>')
    print("</svg>")


main()
