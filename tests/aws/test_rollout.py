"""New versions of the functions: when they are published, how requests move to them, and how they move back."""

import json
import os
import re
import subprocess
import sys
import tomllib

import pytest
from emulated import STACK
from transformed import ROOT, source, transformed

# The functions that answer requests.
SHIFTED = {"Send", "Grab", "View", "Wallet"}


def versions(**parameters):
    """The logical id of each function's version. A new one is a new version."""
    resources = transformed(parameters=parameters)["Resources"]
    return {
        resource["Properties"]["FunctionName"]["Ref"]: logical_id
        for logical_id, resource in resources.items()
        if resource["Type"] == "AWS::Lambda::Version"
    }


def test_a_new_release_publishes_new_versions():
    """Otherwise a change of only a parameter would never reach a published version."""
    before, after = versions(Release="0" * 40), versions(Release="1" * 40)
    assert set(before) == set(after) == SHIFTED | {"GrabOnInstances"}
    for function, version in before.items():
        assert version != after[function], function
    # Lambda publishes no version of an unchanged function, so the release is part of its description.
    for release in ("0" * 40, "1" * 40):
        resources = transformed(parameters={"Release": release})["Resources"]
        assert all(release in resources[function]["Properties"]["Description"] for function in before)
    assert versions(Release="0" * 40) == before


def release(folder, *, overrides=None, program=b"grab"):
    """Runs scripts/release.py over a build, and returns the words that it adds to the command."""
    build = folder / ".aws-sam/build"
    (build / "Grab").mkdir(parents=True, exist_ok=True)
    (build / "Grab/bootstrap").write_bytes(program)
    (build / "template.yaml").write_text("Resources: {}")
    given = json.dumps(overrides or ["RedisReplicas=1", "RedisUrl=redis://u:a b$@r"])
    (folder / "samconfig.toml").write_text(f"[dev.deploy.parameters]\nparameter_overrides = {given}\n")
    command = [sys.executable, ROOT / "scripts/release.py", "dev", "printf", "%s\\n"]
    environment = os.environ | {"HONGBAO_ROOT": str(folder)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return done.stdout.splitlines()


def test_the_release_names_programs_template_and_parameters(tmp_path):
    *given, first = release(tmp_path)
    assert given == ["--parameter-overrides", "RedisReplicas=1", "RedisUrl=redis://u:a b$@r"]
    assert re.fullmatch(r"Release=[0-9a-f]{64}", first)
    assert release(tmp_path)[-1] == first, "without a change there is nothing to deploy"
    assert release(tmp_path, program=b"changed")[-1] != first
    assert release(tmp_path, overrides=["RedisReplicas=2"])[-1] != first


def test_two_alarms_end_a_gradual_deployment(stack):
    groups = {
        logical_id.removesuffix("DeploymentGroup"): properties
        for logical_id, properties in stack.noted("AWS::CodeDeploy::DeploymentGroup").items()
    }
    assert set(groups) == SHIFTED
    provisioned = "GrabProvisioned" in stack.parameters
    for function, group in groups.items():
        kind = stack.parameters.get("Rollout", "Canary10Percent5Minutes")
        # Lambda accepts no provisioned concurrency while requests move.
        kind = "AllAtOnce" if provisioned and function == "Grab" else kind
        assert group["DeploymentConfigName"] == f"CodeDeployDefault.Lambda{kind}"
        assert "DEPLOYMENT_STOP_ON_ALARM" in group["AutoRollbackConfiguration"]["Events"]
        if stack.parameters.get("Rollout") == "AllAtOnce":
            # A correction must be possible while an alarm is raised.
            assert not group["AlarmConfiguration"]
            continue
        names = [alarm["Name"] for alarm in group["AlarmConfiguration"]["Alarms"]]
        # They are given by name, so nothing else proves that they exist.
        assert names == [f"{STACK}-RolloutFaults", f"{STACK}-RolloutLatency"]
        assert set(names) <= {alarm["AlarmName"] for alarm in stack.noted("AWS::CloudWatch::Alarm").values()}
    for function in SHIFTED:
        policy = stack.template["Resources"][f"{function}Aliaslive"]["UpdatePolicy"]
        group = policy["CodeDeployLambdaAliasUpdate"]["DeploymentGroupName"]
        assert group == {"Ref": f"{function}DeploymentGroup"}


def test_provisioned_environments_belong_to_the_alias(stack):
    alias = stack.noted("AWS::Lambda::Alias")["GrabAliaslive"]
    expected = {"ProvisionedConcurrentExecutions": 5} if "GrabProvisioned" in stack.parameters else None
    assert alias.get("ProvisionedConcurrencyConfig") == expected


def test_each_change_is_offered_to_sam():
    """`make deploy` calls SAM with the release, and goes on where SAM has nothing to do."""
    makefile = (ROOT / "Makefile").read_text()
    assert "scripts/release.py $(ENV) .tools/sam/bin/sam deploy --config-env $(ENV)\n" in makefile
    for environment in ("dev", "prod"):
        config = tomllib.loads((ROOT / "samconfig.toml").read_text())[environment]["deploy"]["parameters"]
        assert config["fail_on_empty_changeset"] is False


# Replaces the AWS CLI: two functions with versions, of which `live` names one.
AWS = """#!/bin/sh
echo "$*" >>"$CALLS"
case "$1 $2" in
    "cloudformation describe-stack-resource")
        case "$6" in Send | Grab) echo "the-$6" ;; *) exit 254 ;; esac ;;
    "lambda get-alias") case "$4" in the-Send) echo 7 ;; the-Grab) echo 12 ;; esac ;;
    "lambda list-versions-by-function") case "$4" in the-Send) printf '5\\t6\\t7\\t8' ;; the-Grab) printf '9\\t12' ;; esac ;;
esac"""


@pytest.fixture
def rollback(tmp_path, monkeypatch):
    program = tmp_path / "aws"
    program.write_text(AWS)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))

    def run(*arguments):
        (tmp_path / "calls").write_text("")
        done = subprocess.run([ROOT / "scripts/rollback.sh", "a-stack", *arguments], capture_output=True, text=True)
        calls = (tmp_path / "calls").read_text().splitlines()
        return done, [call for call in calls if call.startswith("lambda update-alias")]

    return run


def test_a_missing_stack_and_an_unknown_environment_are_named(rollback, tmp_path):
    program = tmp_path / "aws"
    program.write_text("#!/bin/sh\necho 'Stack with id a-stack does not exist' >&2\nexit 254\n")
    done, moves = rollback()
    assert done.returncode != 0 and not moves and "Stack with id a-stack does not exist" in done.stderr
    for target in (["rollback"], ["deploy", "ONLY=page"], ["destroy"]):
        done = subprocess.run(["make", "-C", ROOT, *target, "ENV=stage"], capture_output=True, text=True)
        assert done.returncode != 0 and "samconfig.toml has no environment stage: it has dev prod" in done.stderr


def moved(function, version):
    return (
        f"lambda update-alias --function-name the-{function} --name live --function-version {version}"
        " --routing-config AdditionalVersionWeights={}"
    )


def test_requests_go_back_to_the_version_before(rollback):
    done, moves = rollback()
    assert done.returncode == 0, done.stderr
    # 8 was published later than 7, to which the alias points.
    assert moves == [moved("Send", 6), moved("Grab", 9)]


def test_one_function_goes_to_a_given_version(rollback):
    done, moves = rollback("Send", "5")
    assert done.returncode == 0 and moves == [moved("Send", 5)]


def test_a_function_without_an_older_version_stays(rollback):
    done, moves = rollback("Send", "4")
    assert done.returncode != 0 and not moves and "no version 4" in done.stderr
