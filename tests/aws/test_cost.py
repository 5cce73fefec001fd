"""What the documents say about costs is what scripts/cost.py computes, in the prices of the region of their example."""

import json
import re
import subprocess
import sys

import pytest
from transformed import ROOT, source


def computed(*options):
    command = [sys.executable, ROOT / "scripts/cost.py", "--json", *options]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.fixture(scope="module")
def costs():
    return computed()


def document(name):
    return re.sub(r"\s+", " ", (ROOT / "docs" / name).read_text())


def test_the_table_is_the_one_that_is_printed(costs):
    text = document("PERFORMANCE.md")
    kinds = ["wins", "losses", "sends", "views"]
    for part in costs["a_million"]["wins"]:
        values = [costs["a_million"][kind][part] for kind in kinds]
        if any(values):
            assert f"| {part} | {' | '.join(f'${value:.2f}' for value in values)} |" in text
    sums = [sum(costs["a_million"][kind].values()) for kind in kinds]
    assert f"| together | {' | '.join(f'**${value:.2f}**' for value in sums)} |" in text


def test_the_sums_are_those_that_are_printed(costs):
    text, dollars = document("PERFORMANCE.md"), costs["dollars"]
    users = dollars["month"] - computed("--month-users", "0")["dollars"]["month"]
    at_rest = dollars["at rest, serverless"]
    assert f"a deployment costs ${dollars['at rest']:.0f} a month: ${at_rest:.0f} for ElastiCache Serverless" in text
    assert f"in its place it costs ${computed('--serverless', '0')['dollars']['at rest']:.0f}." in text
    assert f"on 100 slips costs {100 * dollars['rush']:.1f} cents. **A month of small groups** costs ${dollars['month'] - users:.0f}:" in text
    assert f"from 10,001 on: ${users:.0f} for 50,000." in text


def test_the_choice_of_redis_follows_from_the_prices(costs):
    text, dollars, given = document("OPERATE.md"), costs["dollars"], costs["inputs"]
    assert (
        f"`serverless` costs ${dollars['at rest, serverless']:.0f} a month while nobody grabs, three nodes of the default type "
        f"${dollars['at rest, nodes']:.0f}." in text
    )
    slot = given["slot-ecpus"]
    assert f"more than {slot / given['loss-ecpus']:,.0f} grabs or {slot / given['win-ecpus']:,.0f} wins a second." in text
    assert f"takes {slot:,} ECPUs a second" in text
    assert f"A loss takes {given['loss-ecpus']}, a win {given['win-ecpus']} (assumed)" in text
    assert f"{round(costs['redis_alike'], -2):,.0f} grabs a second all month" in text
    assert f"{given['serverless-gb']} GB × ${given['serverless-price']} × 730 hours; {given['nodes']} nodes × ${given['node-price']} × 730" in text
    assert f"at ${given['ecpu-price']} a million ECPUs." in text


def test_the_region_of_the_prices_is_that_of_the_example(costs):
    assert f"export AWS_REGION={costs['region']}\n" in (ROOT / "docs/OPERATE.md").read_text()
    assert f"published prices of {costs['region']}" in document("PERFORMANCE.md")


def test_the_defaults_are_the_cheap_ones(costs):
    template = source()
    assert (template["Parameters"]["Redis"]["Default"], template["Parameters"]["GrabAck"]["Default"]) == ("serverless", "ledger")
    assert costs["inputs"]["serverless"] == 1
    pool = source("stacks/state.yaml")["Resources"]["UserPool"]["Properties"]
    # The plan has authenticator apps, but no second factor by mail.
    assert (pool["UserPoolTier"], pool["EnabledMfas"]) == ("LITE", ["SOFTWARE_TOKEN_MFA"])
