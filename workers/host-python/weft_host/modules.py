"""
Imports the modules that hold graphs. The module of a file has a stable name, because stored values name the module of
their class.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def extend_path(folders: list[Path]) -> None:
    """
    Makes the modules of these folders importable, after all others. A folder that is itself a package is imported by
    its name, so that the folder above it counts, too.
    """
    above = [folder.parent for folder in folders if (folder / "__init__.py").exists()]
    for folder in [*folders, *above]:
        if str(folder) not in sys.path:
            sys.path.append(str(folder))


def import_module(place: str, folder: Path) -> ModuleType:
    """`place`: the absolute path of a `.py` file, or the name of a module. `folder`: of langgraph.json."""
    if not place.endswith((".py", ".pyi")):
        return importlib.import_module(place)
    file = Path(place).resolve()
    if not file.exists():
        raise FileNotFoundError(f"the file {file} does not exist")
    names, root = package_of(file)
    if len(names) > 1:
        # Relative imports work only if the file is imported as a member of its package.
        extend_path([root])
        return importlib.import_module(".".join(names))
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == str(file):
            return module
    return import_file(file, name_for(file, folder))


def package_of(file: Path) -> tuple[list[str], Path]:
    """The names of the packages around a file and its own, and the folder of the outermost package."""
    names, root = [file.stem], file.parent
    while (root / "__init__.py").exists():
        names.insert(0, root.name)
        root = root.parent
    return names, root


def name_for(file: Path, folder: Path) -> str:
    if file.stem.isidentifier() and file.stem not in sys.modules and file.stem not in sys.stdlib_module_names:
        return file.stem
    try:
        relative = file.relative_to(folder)
    except ValueError:
        relative = file
    return f"weft_app_{hashlib.sha256(str(relative).encode()).hexdigest()[:12]}"


def import_file(file: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    # Pickles, dataclasses and msgpack find classes by the name of their module.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def advice_on(error: BaseException) -> str:
    """For a package that is not installed, or that is installed in a version without the module."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    package, _, inner = error.name.partition(".")
    if inner and package in sys.modules:
        return f' ("{package}" has no such module: another version of it may have; the Python is {sys.executable})'
    return (
        f' (add the package of "{error.name}" to the dependencies of the application; its Python is {sys.executable})'
    )
