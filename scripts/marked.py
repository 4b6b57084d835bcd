"""Tables that scripts write into documents, each between two marks."""
import pathlib


def split(path, begin, end):
    """The text of a document before the mark `begin`, between the marks, and after the mark `end`."""
    before, found_begin, rest = pathlib.Path(path).read_text("utf-8").partition(begin)
    between, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"{path} has no place for this table: write the lines '{begin}' and '{end}'")
    return before, between, after


def replace(path, begin, end, table):
    """Puts a table between the marks, in place of the old one."""
    before, _, after = split(path, begin, end)
    pathlib.Path(path).write_text(f"{before}{begin}\n{table}\n{end}{after}", "utf-8")
