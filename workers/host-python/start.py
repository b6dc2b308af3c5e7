"""
Starts the graph host, with `app` the Python part of an app host, with `probe` a probe of the graphs, with `checkpoints`
a reader of databases. Its own folder is removed from the import path: it must hide no module of the application.
"""

import importlib.util
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != FOLDER]
place = FOLDER / "weft_host"
spec = importlib.util.spec_from_file_location(
    "weft_host", place / "__init__.py", submodule_search_locations=[str(place)]
)
if spec is None or spec.loader is None:
    sys.exit(f"The package {place} cannot be loaded.")
package = importlib.util.module_from_spec(spec)
sys.modules["weft_host"] = package
spec.loader.exec_module(package)

if __name__ == "__main__":
    if sys.argv[1:] == ["app"]:
        from weft_host.app.main import main
    elif sys.argv[1:] == ["checkpoints"]:
        from weft_host.imports.checkpoints import main
    elif sys.argv[1:] == ["probe"]:
        from weft_host.probe import main
    else:
        from weft_host.main import main

    main()
