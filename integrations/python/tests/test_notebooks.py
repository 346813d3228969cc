"""The notebooks run, and have pictures."""

import pathlib

import pytest

NOTEBOOKS = pathlib.Path(__file__).parents[1] / "notebooks"


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_and_has_pictures(path, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are not stored"
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    pages = [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", ())]
    assert len(pages) >= 2 and all("&lt;svg" in page for page in pages)


def test_the_cells_of_a_notebook_run_as_a_program_too():
    """Also where there is no Jupyter."""
    import json

    for path in NOTEBOOKS.glob("*.ipynb"):
        names = {}
        for cell in json.loads(path.read_text())["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), path.name, "exec"), names)
