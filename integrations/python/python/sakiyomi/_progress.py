"""The progress of long work, on a terminal or in a notebook."""

import sys
import time
from collections.abc import Callable
from typing import Any, TypeAlias

# Is given the step, and the rows done and to do (0 if that is not known); nothing to hide it.
Display: TypeAlias = Callable[..., None]

# Work that ends sooner shows nothing, as with the commands.
_SILENT_S = 1.0
# Time between two drawings.
_PERIOD_S = 0.1


def display(name: str, progress: bool | None) -> Display | None:
    """Return a display of the progress of a piece of work: if asked for, or (None) on a terminal and in a notebook."""
    if progress is False:
        return None
    if _is_notebook():
        return _Notebook(name)
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return _Terminal(name) if is_terminal or (progress and sys.stderr is not None) else None


def _is_notebook() -> bool:
    # Never imported for this: it takes longer than all of this package.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class _Progress:
    """A line of text about work that began with it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._next = time.monotonic() + _SILENT_S

    def __call__(self, step: str = "", done: int = 0, total: int = 0) -> None:
        now = time.monotonic()
        if not step:
            self._draw("")
        elif now >= self._next:
            self._next = now + _PERIOD_S
            share = f" ({min(done, total) / total:.0%})" if total else ""
            self._draw(f"sakiyomi {self._name}: {step}: {done:,} rows{share}")

    def _draw(self, text: str) -> None:
        raise NotImplementedError


class _Terminal(_Progress):
    """The line of the cursor, which is erased at the end."""

    _is_drawn = False

    def _draw(self, text: str) -> None:
        if text or self._is_drawn:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        self._is_drawn = bool(text)


class _Notebook(_Progress):
    """An output of the cell, which is changed in place."""

    _handle: Any = None

    def _draw(self, text: str) -> None:
        from IPython.display import display as show

        data = {"text/plain": text}
        if self._handle is not None:
            self._handle.update(data, raw=True)
        elif text:
            self._handle = show(data, raw=True, display_id=True)
