"""Reports as tables: flat rows, and a DataFrame of them if pandas is there."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

    from .reports import Configuration, Figure, Interval

Row = dict[str, Any]
"""A flat row: values by column, without those that are missing."""


def frame(rows: list[Row]) -> "pandas.DataFrame":
    """A DataFrame with these rows, and the columns of all of them."""
    try:
        import pandas
    except ImportError as why:
        raise ImportError(
            'to_frame needs pandas, which is not installed: pip install "fullstripe[frame]"'
        ) from why
    return pandas.DataFrame(rows)


def configured(configuration: "Configuration") -> Row:
    """The columns of a configuration."""
    return known(
        {
            **vars(configuration.setup),
            "state": configuration.state,
            **vars(configuration.workload),
        }
    )


def measured(metrics: "dict[str, Figure]") -> Row:
    """The columns of figures, each with the ends of its confidence interval."""
    row: Row = {}
    for metric, figure in metrics.items():
        row[metric] = figure.value
        if figure.interval is not None:
            row[f"{metric}.low"], row[f"{metric}.high"] = figure.interval
    return known(row)


def banded(bands: "dict[str, Interval]") -> Row:
    """The columns of ranges."""
    row: Row = {}
    for metric, (low, high) in bands.items():
        row[f"{metric}.band_low"], row[f"{metric}.band_high"] = low, high
    return known(row)


def known(row: Row) -> Row:
    """The row without what is missing."""
    return {name: value for name, value in row.items() if value is not None}
