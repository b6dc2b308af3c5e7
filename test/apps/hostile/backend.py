"""A hostile build backend: it runs the same attempts in Python that differ there, and makes a wheel all the same."""

import json
import os
import socket
import zipfile
from pathlib import Path

TARGETS = json.loads(Path(__file__).with_name("targets.json").read_text())


def attempt(way, what, work):
    try:
        result = {"got": str(work())[:200]}
    except Exception as error:
        result = {"refused": f"{type(error).__name__} {getattr(error, 'errno', '')}"}
    with Path(os.environ["HOME"], "python-attack.txt").open("a") as out:
        out.write(json.dumps({"way": way, "what": str(what), **result}) + "\n")


def attack():
    for path in TARGETS["lists"]:
        attempt("list", path, lambda path=path: os.listdir(path))
    for path in [*TARGETS["reads"], f"/proc/{TARGETS['pid']}/environ"]:
        attempt("read", path, lambda path=path: Path(path).read_text())
    for path in TARGETS["writes"]:
        attempt("write", path, lambda path=path: Path(path).write_text("x"))
    for port in TARGETS["ports"]:
        attempt("connect", port, lambda port=port: socket.create_connection(("127.0.0.1", port), 5))
    for address in [TARGETS["socket"], TARGETS["abstract"].replace("@", "\0")]:
        attempt("connect", address, lambda address=address: socket.socket(socket.AF_UNIX).connect(address))
    attempt("root", "setuid", lambda: os.setuid(0))
    attempt("root", "chroot", lambda: os.chroot("/tmp"))
    attempt("own", "temporary folder", lambda: Path("/tmp/own.txt").write_text("x"))


def build_wheel(folder, config_settings=None, metadata_directory=None):
    attack()
    info = "evil-1.dist-info"
    with zipfile.ZipFile(Path(folder, "evil-1-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("evil/__init__.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return "evil-1-py3-none-any.whl"
