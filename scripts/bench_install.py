"""Environments for the toolkits of scripts/bench_peers.py: made once, above the torch of this project's own.

A toolkit is installed without its requirements, which pin an older torch, and then with those that it needs here.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

from bench_toolkits import ENVIRONMENTS


def install(name: str, folder: Path) -> str:
    """Make FOLDER/NAME where it is missing; returns the sentence to say where that fails, else nothing."""
    place = folder / name
    if (place / "bin" / "python").exists():
        return ""
    print(f"bench-peers: installing {name} into {place}; this takes a minute or two …", file=sys.stderr)
    environment, pip = ENVIRONMENTS[name], [str(place / "bin" / "python"), "-m", "pip", "install", "-q"]
    try:
        quietly([sys.executable, "-m", "venv", str(place)])
        packages = packages_of(place)
        (packages / "zz_below.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        if environment.toolkit:
            quietly([*pip, "--no-deps", *environment.toolkit])
        if environment.others:
            quietly([*pip, *environment.others])
        if environment.stub:
            (packages / f"{environment.stub}.py").write_text("", encoding="utf-8")
    except (OSError, subprocess.CalledProcessError) as error:
        subprocess.run(["rm", "-rf", str(place)], check=False)
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        return f"{name} cannot be installed and is left out: {said[-1] if said else error}"
    return ""


def packages_of(place: Path) -> Path:
    """site-packages of an environment."""
    return Path(sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)}))


def quietly(command: list[str]) -> None:
    """Run; raises CalledProcessError with what it said."""
    subprocess.run(command, check=True, capture_output=True, text=True)
