import datetime
import json
import os
import subprocess
import sys

import emulated
import pytest
from credentials import fault_of_cli, judged
from transformed import ROOT

NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


def after(**time):
    return (NOW + datetime.timedelta(**time)).isoformat()


@pytest.fixture
def judgement(monkeypatch, tmp_path):
    """What is said of these variables and this configuration."""

    def judge(config="", shared="", **variables):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_CREDENTIAL_EXPIRATION"):
            monkeypatch.delenv(name, raising=False)
        for name, text in ("AWS_CONFIG_FILE", config), ("AWS_SHARED_CREDENTIALS_FILE", shared):
            (tmp_path / name).write_text(text)
            variables[name] = str(tmp_path / name)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        return judged(NOW)

    with emulated.emulator():
        yield judge


def test_keys_that_last_are_fine(judgement):
    assert judgement(**KEYS) == (True, "")
    assert judgement(**KEYS, AWS_SESSION_TOKEN="token", AWS_CREDENTIAL_EXPIRATION=after(hours=5)) == (True, "")


def test_a_profile_that_renews_its_keys_is_fine(judgement):
    keys = {"Version": 1, "AccessKeyId": "key", "SecretAccessKey": "secret", "SessionToken": "token", "Expiration": after(minutes=20)}
    command = f"{sys.executable} -c 'print({json.dumps(json.dumps(keys))})'"
    assert judgement(config=f"[profile deployer]\ncredential_process = {command}\n", AWS_PROFILE="deployer") == (True, "")


def test_keys_that_end_during_a_deployment_begin_none(judgement):
    may_begin, said = judgement(**KEYS, AWS_SESSION_TOKEN="token", AWS_CREDENTIAL_EXPIRATION=after(hours=1))
    assert not may_begin and f"end at {after(hours=1)}" in said and "AWS_PROFILE" in said


def test_without_credentials_no_deployment_begins(judgement):
    may_begin, said = judgement()
    assert not may_begin and "there are no credentials" in said


@pytest.mark.parametrize("end", ["in an hour", "2099-01-01T00:00:00"])
def test_an_end_that_sam_cannot_read_begins_none(judgement, end):
    may_begin, said = judgement(**KEYS, AWS_SESSION_TOKEN="token", AWS_CREDENTIAL_EXPIRATION=end)
    assert not may_begin and "cannot read AWS_CREDENTIAL_EXPIRATION" in said
    # Without exported keys nobody reads it.
    assert "there are no credentials" in judgement(AWS_CREDENTIAL_EXPIRATION=end)[1]


def test_a_profile_that_does_not_exist_is_named(judgement):
    may_begin, said = judgement(AWS_PROFILE="nope")
    assert not may_begin and "The config profile (nope) could not be found" in said


@pytest.mark.parametrize(
    "command", [["spike.py", "dev"], ["preflight.py", "dev"], ["smoke.py", "--env", "dev"]], ids=" ".join
)
def test_no_program_answers_such_a_profile_with_its_own_lines(command):
    variables = os.environ | {"AWS_PROFILE": "nope", "AWS_REGION": "ap-east-1"}
    done = subprocess.run([sys.executable, ROOT / "scripts/aws" / command[0], *command[1:]], env=variables, capture_output=True, text=True)
    assert done.returncode != 0 and "(nope) could not be found" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "version, said",
    [(None, "no AWS CLI"), ("aws-cli/1.29.1 Python/3.11", "is aws-cli/1.29.1: install version 2"), ("aws-cli/2.31.0 Python/3.13", None)],
)
def test_an_aws_cli_that_is_missing_or_old_is_named(tmp_path, monkeypatch, version, said):
    if version:
        (tmp_path / "aws").write_text(f"#!/bin/sh\necho {version}\n")
        (tmp_path / "aws").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = fault_of_cli()
    assert (said in found) if said else found is None


@pytest.mark.parametrize("exported", [True, False])
def test_keys_of_which_nobody_knows_the_end_are_named(judgement, exported):
    shared = "[default]\naws_access_key_id = key\naws_secret_access_key = secret\naws_session_token = token\n"
    may_begin, said = judgement(**KEYS, AWS_SESSION_TOKEN="token") if exported else judgement(shared=shared)
    assert may_begin and "nobody knows when" in said
