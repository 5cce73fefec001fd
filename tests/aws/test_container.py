"""Dockerfile and compose.yaml agree with the repository, and show the local stack to this machine only."""

import json
import re
import shlex
import subprocess
import tomllib

import pytest
import yaml
from transformed import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
# Each instruction with what follows it.
INSTRUCTIONS = re.findall(r"^([A-Z]+) (.+)$", DOCKERFILE, re.M)
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
# A name with a version of two or more numbers, or with that and a variant, such as rust:1.95.0-slim-trixie.
PINNED = re.compile(r"[a-z/]+:\d+(\.\d+)+(-[a-z-]+)?")


def of(name):
    return [rest for instruction, rest in INSTRUCTIONS if instruction == name]


def arguments():
    return dict(argument.split("=", 1) for argument in of("ARG"))


def images():
    """The images of all stages and services."""
    for stage in of("FROM"):
        image = stage.split()[0]
        named = re.fullmatch(r"\$\{(\w+)\}", image)
        yield arguments()[named[1]] if named else image
    yield from (service["image"] for service in SERVICES.values() if "image" in service)


def test_each_image_is_pinned():
    for image in images():
        assert PINNED.fullmatch(image), image
    assert len(list(images())) == 3


def test_the_image_that_builds_has_the_toolchain_of_the_repository():
    channel = tomllib.loads((ROOT / "rust-toolchain.toml").read_text())["toolchain"]["channel"]
    assert arguments()["RUST_IMAGE"].startswith(f"rust:{channel}-")


def test_renovate_raises_both_rust_versions_together():
    rules = json.loads((ROOT / "renovate.json").read_text())["packageRules"]
    [rule] = [rule for rule in rules if rule.get("matchPackageNames") == ["rust"]]
    assert set(rule["matchDatasources"]) == {"rust-version", "docker"}
    assert rule["groupName"]


def test_the_build_gets_every_member_of_the_workspace_and_nothing_else_that_is_large():
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert rules[0] == "*"
    kept = {rule[1:] for rule in rules if rule.startswith("!")}
    for path in kept:
        assert (ROOT / path).exists(), path
    members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    assert {member.split("/")[0] for member in members} | {"Cargo.toml", "Cargo.lock"} <= kept
    # The local stack embeds the page and the client.
    embedded = re.findall(r'#\[folder = "\.\./(.+?)"\]', (ROOT / "local/src/gateway/page.rs").read_text())
    assert embedded and {folder.split("/")[0] for folder in embedded} <= kept
    assert {"**/node_modules", "**/target"} <= set(rules)


def test_what_is_copied_between_the_stages_is_the_program():
    build = next(run for run in of("RUN") if "cargo build" in run)
    assert "--release" in build and "--locked" in build and "--package local" in build
    program = build.split()[-1]
    [copied] = [rest.split() for rest in of("COPY") if "--from=build" in rest]
    assert copied[1] == program
    [entry] = of("ENTRYPOINT")
    assert copied[2] == f"/usr/local/bin/{json.loads(entry)[0]}"


def test_the_container_has_a_user_of_its_own_with_a_volume_for_the_data():
    [user] = of("USER")
    assert user not in ("root", "0")
    [run] = [run for run in of("RUN") if "useradd" in run]
    [volume] = of("VOLUME")
    assert f"--owner {user} --group {user} {volume}" in " ".join(run.split())
    entry = json.loads(of("ENTRYPOINT")[0])
    assert entry[entry.index("--data-dir") + 1] == volume
    names = [instruction for instruction, _ in INSTRUCTIONS]
    assert "RUN" not in names[names.index("USER") :], "every step that needs root comes before it"
    assert SERVICES["hongbao"]["volumes"] == [f"ledger:{volume}"]


def test_it_listens_on_all_interfaces_only_inside_the_container():
    entry = json.loads(of("ENTRYPOINT")[0])
    assert entry[entry.index("--listen") + 1] == "0.0.0.0"
    options = (ROOT / "local/src/options.rs").read_text()
    assert "const LISTEN: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);" in options


def test_ports_are_published_to_this_machine_only():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published, "nobody reaches it"
    for port in published:
        # One number on both sides, or the stack refuses the request for another host.
        assert re.fullmatch(r"127\.0\.0\.1:(.+):\1", port), port
    assert not any(service.get("network_mode") or service.get("privileged") for service in SERVICES.values())
    documents = [DOCKERFILE] + [(ROOT / name).read_text() for name in ("README.md", "README.zh-CN.md")]
    for publish in re.findall(r"--publish (\S+)|-p (\d\S+)", "\n".join(documents)):
        assert "".join(publish).startswith("127.0.0.1:"), publish


def test_the_health_checks_ask_the_health_route():
    health = re.search(r'const HEALTH: &str = "(.+?)"', (ROOT / "local/src/gateway/server.rs").read_text())[1]
    [check] = of("HEALTHCHECK")
    assert f"http://127.0.0.1:3000{health}" in check
    assert of("EXPOSE") == ["3000"]
    address = SERVICES["hongbao"]["healthcheck"]["test"][-1]
    assert address == "http://127.0.0.1:${HONGBAO_PORT:-3000}" + health
    assert "curl" in next(run for run in of("RUN") if "apt-get install" in run)


def test_the_stack_waits_for_its_server_and_uses_it():
    stack = SERVICES["hongbao"]
    command = stack["command"]
    assert command[command.index("--redis-url") + 1] == "redis://valkey:6379"
    assert stack["depends_on"] == {"valkey": {"condition": "service_healthy"}}
    assert "healthcheck" in SERVICES["valkey"]
    server = SERVICES["valkey"]["command"]
    assert server[server.index("--maxmemory-policy") + 1] == "noeviction"
    assert server[server.index("--appendonly") + 1] == "yes"
    volumes = {mount.split(":")[0] for service in SERVICES.values() for mount in service["volumes"]}
    assert volumes == COMPOSE["volumes"].keys()


@pytest.mark.parametrize("script", of("RUN"))
def test_each_step_is_a_script_that_a_shell_can_read(script):
    script = re.sub(r"--mount=\S+", "", script)
    subprocess.run(["sh", "-n", "-c", script], check=True)
    assert shlex.split(script)
