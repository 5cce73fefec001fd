#!/usr/bin/env python3
"""Runs a command with the parameters of a deployment: those of samconfig.toml, and the release. Needs Python 3.11.

    scripts/release.py prod sam deploy --config-env prod

The release is a hash of the built programs, the built template and the parameters. Lambda publishes a version of a function once
the release changes. SAM itself sees only a change of the program or of the template.
"""

import hashlib
import os
import pathlib
import sys
import tomllib

ROOT = pathlib.Path(os.environ.get("HONGBAO_ROOT", pathlib.Path(__file__).resolve().parents[1]))


def parameters(environment: str) -> list[str]:
    config = tomllib.loads((ROOT / "samconfig.toml").read_text())
    given = config[environment]["deploy"]["parameters"]["parameter_overrides"]
    build = ROOT / ".aws-sam/build"
    files = [build / "template.yaml", *sorted(build.glob("*/bootstrap"))]
    hashed = hashlib.sha256()
    for part in [path.read_bytes() for path in files] + [text.encode() for text in given]:
        hashed.update(hashlib.sha256(part).digest())
    return [*given, f"Release={hashed.hexdigest()}"]


if __name__ == "__main__":
    command = [*sys.argv[2:], "--parameter-overrides", *parameters(sys.argv[1])]
    os.execvp(command[0], command)
