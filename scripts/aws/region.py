#!/usr/bin/env python3
"""Prints the region of a deployment, or the name of its stack, or says in one line why there is none. Needs Python 3.11.

    scripts/aws/region.py dev
    scripts/aws/region.py dev stack

The tools disagree where to look: the AWS CLI 2 reads AWS_REGION first, SAM and boto3 read only AWS_DEFAULT_REGION
(https://docs.aws.amazon.com/sdkref/latest/guide/feature-region.html), and only SAM reads samconfig.toml. So the Makefile asks here
once, and gives each tool both variables.
"""

import os
import pathlib
import re
import subprocess
import sys

if sys.version_info < (3, 11):
    sys.exit(f"python3 is Python {sys.version_info[0]}.{sys.version_info[1]}: install 3.11 or later, and put it first in PATH")

import tomllib  # noqa: E402

# China, GovCloud, the European Sovereign Cloud, and those of secret services.
OTHER_PARTITIONS = "cn-|us-gov-|eusc-|[a-z]{2}-iso"
ROOT = pathlib.Path(os.environ.get("HONGBAO_ROOT", pathlib.Path(__file__).resolve().parents[2]))


def in_profile():
    """The region of the AWS CLI's profile, or an empty text."""
    try:
        asked = subprocess.run(["aws", "configure", "get", "region"], capture_output=True, text=True)
    except OSError:
        return ""
    return asked.stdout.strip()


def stack_of(environment, root=ROOT):
    """The name that samconfig.toml gives."""
    config = tomllib.loads((root / "samconfig.toml").read_text())
    sections = {name: section for name, section in config.items() if isinstance(section, dict) and "global" in section}
    if environment not in sections:
        sys.exit(f"samconfig.toml has no environment {environment}: it has {', '.join(sections)}")
    return sections[environment]["global"]["parameters"]["stack_name"]


def region_of(environment, root=ROOT):
    """The region that all tools shall use. Exits if there is none, if two places name different ones, or if the stack can't be there."""
    config = tomllib.loads((root / "samconfig.toml").read_text()).get(environment, {})
    of_sam = next((config[of]["parameters"]["region"] for of in ("deploy", "global") if "region" in config.get(of, {}).get("parameters", {})), "")
    variables = {name: os.environ.get(name, "") for name in ("AWS_REGION", "AWS_DEFAULT_REGION")}
    named = {place: name for place, name in ({"samconfig.toml": of_sam} | variables).items() if name}
    if len(set(named.values())) > 1:
        listed = ", ".join(f"{place} says {name}" for place, name in named.items())
        sys.exit(f"the region is contradictory: {listed}. Name one region, once")
    region = next(iter(named.values()), "") or in_profile()
    if not region:
        sys.exit("there is no region: set AWS_REGION, or region in samconfig.toml")
    if re.match(OTHER_PARTITIONS, region):
        sys.exit(
            f"the stack does not deploy to {region}: China lacks Cognito, function URLs and CloudFront's functions, GovCloud lacks CloudFront, "
            "and nobody has tried a partition of AWS other than the public one. Name a public region, such as ap-east-1"
        )
    return region


if __name__ == "__main__":
    print(stack_of(sys.argv[1]) if sys.argv[2:] == ["stack"] else region_of(sys.argv[1]))
