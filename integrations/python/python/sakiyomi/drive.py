"""Drives of one's own: ``sakiyomi.drive.fit`` identifies one from a measured trace."""

from collections.abc import Mapping
from typing import Any, Unpack

from sakiyomi import _native
from sakiyomi._options import MeasuredOptions, reading_options, takes
from sakiyomi._reading import PathLike
from sakiyomi._result import FitResult
from sakiyomi._simulation import Trace, drive_options, trace_of, warn

__all__ = ["fit"]


@takes(MeasuredOptions)
def fit(
    trace: Trace,
    drive: PathLike,
    settings: Mapping[str, Any] | None = None,
    *,
    fit_share: float = 0.5,
    fit_until: str | None = None,
    **options: Unpack[MeasuredOptions],
) -> FitResult:
    """Identify a drive from a measured trace.

    trace: a trace with measured response times, as for ``validate``.
    drive: the drive to begin with, as for ``simulate``, with changes by ``settings``.
    fit_share: fit to this fraction of the trace's time, from its start; the rest is held out to judge the fit.
    fit_until: fit to the requests issued before this time, instead.

    The other arguments are those of ``simulate``. The figures are those of ``sakiyomi drive fit``. ``verdict`` says whether the
    fitted drive is more accurate, and ``to_toml()`` returns it, for a file that ``simulate`` takes.

    >>> found = fit("measured.trace.gz", "deskstar-p7k500")  # doctest: +SKIP
    >>> if found.is_gain:  # doctest: +SKIP
    ...     pathlib.Path("mine.toml").write_text(found.to_toml())
    """
    document, toml, verdict, notes = _native.fit(
        trace_of(trace),
        drive_options(drive, settings, None),
        reading_options(options),
        options["wrap"],
        fit_share,
        fit_until,
    )
    warn(notes)
    return FitResult(document, toml, verdict)
