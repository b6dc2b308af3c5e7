from pathlib import Path
from typing import Any

import pytest
from supervisor import Supervisor, source

from weft_host.application import Application
from weft_host.description import Description, read_description

GRAPHS = Path(__file__).parent / "graphs.py"


def application(folder: Path, *graphs: Any, **description: Any) -> dict[str, Any]:
    return Application(Description(str(folder), list(graphs), **description)).hello


def rows(hello: dict[str, Any]) -> dict[str, str | None]:
    return {row["graph_id"]: row["error"] for row in hello["graphs"]}


def test_graphs_and_reasons_for_their_absence(tmp_path: Path):
    (tmp_path / "broken.py").write_text("raise RuntimeError('at import')")
    (tmp_path / "exits.py").write_text("import sys; sys.exit(1)")
    (tmp_path / "lacks.py").write_text("import nowhere_to_be_found")
    (tmp_path / "older.py").write_text("import langgraph.nowhere_to_be_found")
    hello = application(
        tmp_path,
        source("good", GRAPHS),
        source("builder", GRAPHS, "builder"),
        source("factory", GRAPHS, "factory"),
        source("missing", tmp_path / "missing.py"),
        source("unnamed", GRAPHS, "no_such_name"),
        source("number", GRAPHS, "not_a_graph"),
        source("broken", tmp_path / "broken.py"),
        source("exits", tmp_path / "exits.py"),
        source("lacks", tmp_path / "lacks.py"),
        source("older", tmp_path / "older.py"),
    )
    errors = rows(hello)
    assert [name for name, error in errors.items() if error is None] == ["good", "builder", "factory"]
    assert "does not exist" in (errors["missing"] or "")
    assert 'no export named "no_such_name"' in (errors["unnamed"] or "")
    assert "is not a graph" in (errors["number"] or "")
    assert "RuntimeError: at import" in (errors["broken"] or "")
    assert "SystemExit" in (errors["exits"] or "")
    assert 'add the package of "nowhere_to_be_found"' in (errors["lacks"] or "")
    assert '("langgraph" has no such module: another version of it may have' in (errors["older"] or "")
    assert hello["error"] is None
    good, _, factory, *_ = hello["graphs"]
    assert set(good["inputs"]) == {"steps", "answer", "limit"}
    assert "inputs" not in factory


def test_modules_packages_and_relative_imports(tmp_path: Path):
    package = tmp_path / "src" / "app_of_test"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text(GRAPHS.read_text())
    (package / "agent.py").write_text("from .parts import graph\nfrom . import parts\nassert parts.__package__")
    hello = application(
        tmp_path,
        source("file", package / "agent.py"),
        source("module", "app_of_test.agent"),
        dependencies=[str(tmp_path / "src")],
    )
    assert rows(hello) == {"file": None, "module": None}


def test_a_dependency_that_is_a_package_is_imported_by_its_name(tmp_path: Path):
    package = tmp_path / "agent_of_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text(GRAPHS.read_text())
    (tmp_path / "app").mkdir()
    graph = tmp_path / "app" / "entry_of_test.py"
    graph.write_text("from agent_of_test.parts import graph")
    hello = application(tmp_path / "app", source("entry", graph), dependencies=[str(package)])
    assert rows(hello) == {"entry": None}


def test_two_files_of_one_name_are_two_modules(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        text = f"import graphs_of_tests\ngraph = graphs_of_tests.graph\nplace = {name!r}"
        (tmp_path / name / "same_name.py").write_text(text)
    (tmp_path / "graphs_of_tests.py").write_text(GRAPHS.read_text())
    hello = application(tmp_path, source("a", tmp_path / "a/same_name.py"), source("b", tmp_path / "b/same_name.py"))
    assert rows(hello) == {"a": None, "b": None}


def test_variables_of_the_process_take_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WEFT_TEST_SET", "process")
    monkeypatch.delenv("WEFT_TEST_NEW", raising=False)
    (tmp_path / "reads.py").write_text(
        "import os\nassert os.environ['WEFT_TEST_SET'] == 'process' and os.environ['WEFT_TEST_NEW'] == 'file'\n"
        "graph = __import__('graphs').graph"
    )
    env = {"WEFT_TEST_SET": "file", "WEFT_TEST_NEW": "file"}
    assert rows(application(tmp_path, source("g", tmp_path / "reads.py"), env=env)) == {"g": None}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"folder":"/","unknown":1}'])
def test_a_description_that_is_wrong_is_one_sentence(text: str):
    with pytest.raises(ValueError, match="WEFT_DESCRIPTION"):
        read_description(text)


async def test_a_context_manager_is_left_after_the_finish_by_the_task_that_entered_it():
    import graphs

    graphs.entered.clear()
    graphs.left.clear()
    supervisor = Supervisor([source("factory", GRAPHS, "factory"), source("plain", GRAPHS, "plain_factory")], "/")
    ended = await supervisor.run("factory", input={"steps": []})
    assert ended["status"] == "success"
    assert ended["values"]["steps"] == ["first", "second"]
    assert graphs.entered == ["factory"]
    assert graphs.left == ["same task"]
    assert (await supervisor.run("plain", input={"steps": []}))["status"] == "success"


async def test_a_factory_that_returns_no_graph_fails_its_run():
    supervisor = Supervisor([source("nothing", GRAPHS, "factory_of_nothing")], "/")
    ended = await supervisor.run("nothing", input={})
    assert ended["error"]["message"] == 'The factory of graph "nothing" returned no graph.'
