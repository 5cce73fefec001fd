#!/usr/bin/env python3
"""Runs a command with the parameters of a deployment: all of the template's, by samconfig.toml or by their defaults, and the release.

    .tools/sam/bin/python scripts/aws/release.py prod sam deploy --config-env prod

SAM keeps the last value of a parameter that is not named, so a line that was taken out of samconfig.toml would change nothing. The
release is a hash of the built programs, the built template and the parameters. Lambda publishes a version of a function once the
release changes. SAM itself sees only a change of the program or of the template.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

from preflight import ROOT, Environment


def parameters(environment, build):
    """The value of each parameter. One without a value and a default is left out."""
    known = Environment(environment, build.parents[1])
    values = {name: value for name, value in known.parameters.items() if value or "Default" in known.declared[name]}
    files = [build / "template.yaml", *sorted(build.glob("*/bootstrap"))]
    hashed = hashlib.sha256()
    for part in [path.read_bytes() for path in files] + [json.dumps(values, sort_keys=True).encode()]:
        hashed.update(hashlib.sha256(part).digest())
    return values | {"Release": hashed.hexdigest(), "Commit": commit(build.parents[1])}


def commit(root):
    """The commit of the working tree, with -dirty if it has changes; unknown without git."""
    try:
        words = ["git", "-C", root, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def quoted(value):
    """As SAM reads it back: it takes the quotes away, and a backslash before a space or a quote."""
    return '"' + re.sub(r"""\\(?=[ "'])""", r"\\\\", value) + '"'


if __name__ == "__main__":
    build = pathlib.Path(os.environ.get("HONGBAO_ROOT", ROOT)) / ".aws-sam/build"
    # SAM unquotes what comes from a file twice.
    values = {name: quoted(quoted(value)) for name, value in parameters(sys.argv[1], build).items()}
    # JSON is YAML. A file, because SAM cuts a word at its first space, and others can see the words of a command.
    (build / "parameters.yaml").write_text(json.dumps(values, indent=1))
    os.execvp(sys.argv[2], [*sys.argv[2:], "--parameter-overrides", f"file://{build / 'parameters.yaml'}"])
