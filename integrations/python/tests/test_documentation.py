"""Examples in docstrings run, and everything public has one or says what it is."""

import doctest
import importlib
import pkgutil

import pytest

import sakiyomi


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(sakiyomi.__path__)] + [""])
def test_examples_in_docstrings_run(name):
    if name == "filesystem":
        pytest.importorskip("fsspec")
    module = importlib.import_module(f"sakiyomi.{name}".rstrip("."))
    assert doctest.testmod(module).failed == 0


def test_everything_public_is_documented():
    for name in sakiyomi.__all__:
        thing = getattr(sakiyomi, name)
        assert thing.__doc__, name
        if isinstance(thing, type) and thing.__module__.startswith("sakiyomi"):
            for part, value in vars(thing).items():
                if not part.startswith("_") and callable(value) and part not in dir(__import__("io").RawIOBase):
                    assert value.__doc__, f"{name}.{part}"
