"""template.yaml as CloudFormation gets it: after the SAM transform, done here.

    python tests/aws/transformed.py target/aws/template.json
    python tests/aws/transformed.py target/aws/all.json Page=true    # another default: checkov leaves out what no default makes
"""

import json
import os
import pathlib
import sys
from unittest import mock

# The transform asks for a region, and uses it for nothing here.
REGION = os.environ.setdefault("AWS_DEFAULT_REGION", "ap-east-1")
ROOT = pathlib.Path(__file__).resolve().parents[2]


def source() -> dict:
    """The template as it is written; short forms such as `!Ref X` in their long form."""
    from samtranslator.yaml_helper import yaml_parse

    return yaml_parse((ROOT / "template.yaml").read_text())


def transformed(parameters: dict | None = None) -> dict:
    """The template after the transform. The code of the functions is made up: this is about everything else."""
    from samtranslator.translator.managed_policy_translator import ManagedPolicyLoader
    from samtranslator.translator.transform import transform

    template = source()
    template["Globals"]["Function"]["CodeUri"] = "s3://code/code.zip"
    return transform(template, parameters or {}, ManagedPolicyLoader(mock.Mock()))


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1])
    out.parent.mkdir(parents=True, exist_ok=True)
    template = transformed()
    for default in sys.argv[2:]:
        name, _, value = default.partition("=")
        template["Parameters"][name]["Default"] = value
    out.write_text(json.dumps(template, indent=1))
