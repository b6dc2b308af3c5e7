import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from weft_host.failure import AppFrame, frame_of, place_of

PACKAGE = "def fail(say):\n    raise KeyError(say)\n"
GRAPH = """import json

def ask(call):
    return call("order")

def parse():
    return json.loads("{")

def run():
    exec("raise ValueError()")
"""


def load(file: Path, text: str) -> Any:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    module = ModuleType(file.stem)
    exec(compile(text, str(file), "exec"), module.__dict__)
    return module


def frame_at(folders: list[Path], call: Any) -> AppFrame | None:
    try:
        call()
    except Exception as error:
        return frame_of(error, [str(folder) for folder in folders])
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("inside", [".venv/lib/python3.12/site-packages", "vendor/node_modules"])
def test_the_place_of_an_error_is_in_no_package(tmp_path: Path, inside: str):
    graph = load(tmp_path / "src/agent/graph.py", GRAPH)
    package = load(tmp_path / inside / "package.py", PACKAGE)
    frame = frame_at([tmp_path], lambda: graph.ask(package.fail))
    assert frame is not None
    assert place_of(frame) == {"file": "src/agent/graph.py", "line": 4, "function": "ask"}
    assert frame.file == str(tmp_path / "src/agent/graph.py")


def test_the_place_of_an_error_is_neither_in_python_nor_in_code_without_a_file(tmp_path: Path):
    graph = load(tmp_path / "graph.py", GRAPH)
    places = [frame_at([tmp_path, Path("/")], call) for call in (graph.parse, graph.run)]
    assert [place_of(frame) if frame else None for frame in places] == [
        {"file": "graph.py", "line": 7, "function": "parse"},
        {"file": "graph.py", "line": 10, "function": "run"},
    ]
    assert Path(sysconfig.get_path("stdlib")).is_relative_to("/")


def test_an_error_outside_of_the_application_has_no_place(tmp_path: Path):
    graph = load(tmp_path / "elsewhere/graph.py", GRAPH)
    (tmp_path / "app").mkdir()
    assert frame_at([tmp_path / "app"], graph.parse) is None
    frame = frame_at([tmp_path / "app", tmp_path / "elsewhere"], graph.parse)
    assert frame is not None
    assert frame.path == "../elsewhere/graph.py"


def test_a_folder_behind_a_symbolic_link(tmp_path: Path):
    graph = load(tmp_path / "real/graph.py", GRAPH)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    linked = load(tmp_path / "link/graph.py", GRAPH)
    for module in (graph, linked):
        frame = frame_at([tmp_path / "real"], module.parse)
        assert frame is not None
        assert frame.path == "graph.py"
