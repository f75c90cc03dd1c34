"""Run the code of a notebook without Jupyter, and turn notebooks into pages when the site is built.

python scripts/notebook.py docs/tutorials/attention.ipynb          # runs it; an error ends it
python scripts/notebook.py docs/tutorials/attention.ipynb --write  # and keeps what it prints and
draws in the file

MkDocs calls `on_files` and `on_page_markdown` (mkdocs.yml, hooks).
"""

import argparse
import ast
import base64
import contextlib
import io
import json
from pathlib import Path
from typing import Any

DPI = 72  # of the pictures that are kept


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def execute(notebook: dict[str, Any]) -> None:
    """Run the code cells in one namespace and put what they print and draw into their outputs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    namespace: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            value = run_cell("".join(cell["source"]), f"cell {number}", namespace)
        outputs: list[dict[str, Any]] = []
        if printed.getvalue():
            outputs.append(
                {
                    "output_type": "stream",
                    "name": "stdout",
                    "text": printed.getvalue().splitlines(True),
                }
            )
        figures = [
            *map(pyplot.figure, pyplot.get_fignums()),
            *([value] if isinstance(value, Figure) else []),
        ]
        for figure in figures:
            picture = io.BytesIO()
            figure.savefig(picture, format="png", dpi=DPI, bbox_inches="tight")
            data = {
                "image/png": base64.b64encode(picture.getvalue()).decode(),
                "text/plain": ["<Figure>"],
            }
            outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
        if page := getattr(value, "_repr_html_", str)():
            data = {"text/html": page.splitlines(True), "text/plain": ["<page>"]}
            outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
        pyplot.close("all")
        cell["outputs"], cell["execution_count"] = outputs, number


def run_cell(source: str, name: str, namespace: dict[str, Any]) -> Any:
    """Run the statements; the value of the last one where it is an expression, as Jupyter displays
    it."""
    tree = ast.parse(source, name)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, name, "exec"), namespace)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), name, "exec"), namespace)
    return eval(compile(ast.Expression(last.value), name, "eval"), namespace)


def as_markdown(notebook: dict[str, Any]) -> str:
    """The notebook as a page: code in fences, what it printed below, pictures inside the page."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            if "text" in output:
                parts.append(f"```text\n{''.join(output['text'])}```")
            elif picture := output.get("data", {}).get("image/png"):
                parts.append(
                    '<img alt="what the cell above draws" '
                    f'src="data:image/png;base64,{"".join(picture)}">'
                )
            elif page := output.get("data", {}).get("text/html"):
                parts.append(f"<div>{''.join(page)}</div>")
    return "\n\n".join(parts) + "\n"


def on_files(files: Any, config: Any) -> Any:
    """MkDocs: notebooks become pages."""
    from mkdocs.structure.files import File

    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(file)
        name = file.src_uri.removesuffix(".ipynb") + ".md"
        files.append(
            File.generated(config, name, content=as_markdown(read(Path(file.abs_src_path))))
        )
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs: links to notebooks lead to their pages."""
    return markdown.replace(".ipynb)", ".md)")


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the code of a notebook.")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--write", action="store_true", help="keep the outputs in the file")
    options = parser.parse_args()
    notebook = read(options.notebook)
    execute(notebook)
    if options.write:
        text = json.dumps(notebook, ensure_ascii=False, indent=1)
        options.notebook.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
