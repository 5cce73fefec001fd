"""template.yaml as CloudFormation receives it: after the SAM transform, which runs here.

    python tests/aws/transformed.py target/aws/template.json
    python tests/aws/transformed.py target/aws/all.json Page=true    # other defaults: checkov skips resources that the defaults do not make
"""

import json
import os
import pathlib
import sys
from unittest import mock

# The transform requires a region, but does not use it here.
REGION = os.environ.setdefault("AWS_DEFAULT_REGION", "ap-east-1")
ROOT = pathlib.Path(__file__).resolve().parents[2]


def source() -> dict:
    """The template as it is written, with short forms such as `!Ref X` in their long form."""
    from samtranslator.yaml_helper import yaml_parse

    return yaml_parse((ROOT / "template.yaml").read_text())


def transformed(parameters: dict | None = None) -> dict:
    """The template after the transform, with a made-up location of the functions' code."""
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
