"""The table of cases, on the screen and in the documents."""
import marked

HEAD = f"{'GROUP':<9} {'ARRAY':<44} {'MADE BY':<8} {'TIME':>6}  OUTCOME"
BEGIN = "<!-- cases: begin (written by scripts/interop) -->"
END = "<!-- cases: end -->"


def line(outcome):
    case = outcome.case
    verdict = "FAILED: " if outcome.failed else "holds: "
    return f"{case.group:<9} {case.name:<44} {case.started_by:<8} {outcome.seconds:5.1f}s  {verdict}{outcome.text}"


def write(path, outcomes):
    """Replaces the text between the marks of the file at `path`."""
    rows = ["| group | array | made by | fields compared | outcome |", "|---|---|---|---|---|"]
    for outcome in outcomes:
        case = outcome.case
        words = "**failed**" if outcome.failed else f"holds: {outcome.text}"
        rows.append(f"| {case.group} | {case.name} | {case.started_by} | {outcome.fields} | {words} |")
    marked.replace(path, BEGIN, END, "\n".join(rows))
