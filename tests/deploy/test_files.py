"""The files of deploy/, where no Docker and no Kubernetes runs: what they say is checked against the code and, where
they are installed, by hadolint, Docker Compose and Kubernetes' own schemas (`make check-deploy` says which are not)."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from prefect.events import Event, Resource
from prefect.events.actions import RunDeployment, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger
from prefect.server.utilities.user_templates import render_user_template_sync
from typer.testing import CliRunner

from vitalfew.flows.cli.main import app
from vitalfew.flows.forms import EvaluateForm
from vitalfew.flows.re_encode import index_event
from vitalfew.storage.generations import GateRecord, Generation

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
CLUSTER, JOB = yaml.safe_load_all((DEPLOY / "kuberay.yaml").read_text())
SERVER, SERVICE = yaml.safe_load_all((DEPLOY / "kuberay_serve.yaml").read_text())
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
SECRET = re.compile(r"PASSWORD|TOKEN|KEY|AUTH_STRING")
SERVICES = pytest.mark.parametrize("name", sorted(COMPOSE["services"]))
GROUPS = [CLUSTER["spec"]["headGroupSpec"], *CLUSTER["spec"]["workerGroupSpecs"]]


def tool(name: str) -> str:
    """Its path, in this environment or the machine's. Skips the test without."""
    path = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return path or pytest.skip(f"{name} is not installed")


def compose() -> list[str]:
    """Docker Compose, version 2 or later. Skips the test without."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]):
            done = subprocess.run([*command, "version", "--short"], capture_output=True, text=True)
            if done.returncode == 0 and not done.stdout.startswith(("1.", "v1.")):
                return command
    return pytest.skip("Docker Compose (version 2 or later) is not installed")


# -- Dockerfile


def test_hadolint_has_nothing_to_say() -> None:
    done = subprocess.run([tool("hadolint"), str(DEPLOY / "Dockerfile")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_vitalfew_as_nobody_in_particular() -> None:
    lines = [line for line in DOCKERFILE.splitlines() if line.startswith(("USER", "ENTRYPOINT"))]
    assert lines == ["USER 10001:10001", 'ENTRYPOINT ["vitalfew"]']
    assert not SECRET.search("".join(re.findall(r"^(?:ARG|ENV) .*", DOCKERFILE, re.MULTILINE)))


# -- compose.yaml


def environment(folder: Path) -> Path:
    """The file that `env.sh` makes, in this folder."""
    shutil.copy(DEPLOY / "env.sh", folder)
    subprocess.run(["sh", str(folder / "env.sh")], check=True, capture_output=True)
    return folder / ".env"


def variables(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text().splitlines() if "=" in line and line[0] != "#")


def test_every_secret_is_the_users_own(tmp_path: Path) -> None:
    made = environment(tmp_path)
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    values = variables(made)
    assert all(re.fullmatch("[0-9a-f]{20,}", value) for value in values.values())
    assert len(set(values.values())) == len(values)
    assert dict.fromkeys(values, "") == variables(DEPLOY / ".env.example")
    assert set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text())) == {
        *values,
        "VITALFEW_FILES",
        "VITALFEW_INDEX",
        "VITALFEW_METHOD",
    }
    again = subprocess.run(["sh", str(tmp_path / "env.sh")], capture_output=True)
    assert (again.returncode, variables(made)) == (1, values)


@SERVICES
def test_no_secret_has_a_default(name: str) -> None:
    for variable, value in COMPOSE["services"][name].get("environment", {}).items():
        if SECRET.search(variable):
            assert re.fullmatch(r"(\$\{\w+(:\?[^}]+)?\}:?)+", value), variable


@SERVICES
def test_a_service_is_pinned_and_reached_from_this_machine_alone(name: str) -> None:
    service = COMPOSE["services"][name]
    assert re.fullmatch(r"[\w/.-]+:(?!latest)[\w.-]+", service["image"])
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert service["security_opt"] == ["no-new-privileges:true"]
    for other, condition in service.get("depends_on", {}).items():
        ended = condition["condition"] == "service_completed_successfully"
        assert ended or "healthcheck" in COMPOSE["services"][other]


def test_only_what_runs_commands_has_the_keys_of_the_bucket() -> None:
    having = {name for name, service in COMPOSE["services"].items() if "AWS_ACCESS_KEY_ID" in service["environment"]}
    assert having == {"serve", "worker"}


def test_compose_reads_the_file(tmp_path: Path) -> None:
    command = [*compose(), "--file", str(DEPLOY / "compose.yaml"), "--profile", "gpu", "--profile", "serve"]
    made = [*command, "--env-file", str(environment(tmp_path)), "config"]
    whole = yaml.safe_load(subprocess.run(made, check=True, capture_output=True, text=True).stdout)
    assert set(whole["services"]) == set(COMPOSE["services"])
    ports = [port for service in whole["services"].values() for port in service.get("ports", [])]
    assert {port["host_ip"] for port in ports} == {"127.0.0.1"}
    (tmp_path / "empty").touch()
    without = [*command, "--env-file", str(tmp_path / "empty"), "config"]
    bare = {name: value for name, value in os.environ.items() if name not in variables(DEPLOY / ".env.example")}
    refused = subprocess.run(without, capture_output=True, text=True, env=bare)
    assert refused.returncode != 0
    assert "sh deploy/env.sh" in refused.stderr


# -- kuberay.yaml


def pods() -> list[dict[str, Any]]:
    """The pods of all groups, as Kubernetes has pods."""
    named = [({"name": group.get("groupName", "head")}, group["template"]["spec"]) for group in GROUPS]
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": name, "spec": spec} for name, spec in named]


def test_pods_have_secrets_from_secrets_and_say_what_they_take() -> None:
    assert CLUSTER["spec"]["authOptions"] == {"mode": "token", "secretName": "vitalfew-ray"}
    (server,) = SERVER["spec"]["template"]["spec"]["containers"]
    assert all("valueFrom" in variable for variable in server["env"] if SECRET.search(variable["name"]))
    for command in (JOB["spec"]["entrypoint"], server["args"][0].strip().splitlines()[-1].removeprefix("exec ")):
        program, name, *arguments = command.split()
        said = CliRunner().invoke(app, [name, "--help"], env={"TERM": "dumb", "COLUMNS": "200"}).output
        assert program == "vitalfew"
        assert all(word in said for word in arguments if word.startswith("--"))
    for pod in pods():
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        (container,) = pod["spec"]["containers"]
        assert not any(SECRET.search(variable["name"]) for variable in container["env"])
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert ("envFrom" in container) == (pod["metadata"]["name"] == "head")
    gpu = GROUPS[-1]
    assert (gpu["groupName"], gpu["replicas"]) == ("gpu", 0)
    assert gpu["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_kubernetes_takes_the_pods() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    assert pods()
    for resource in (*pods(), SERVER, SERVICE):
        validate.validate(resource, validate.latest_version(), strict=True)


# -- automations.yaml


def test_the_automations_are_valid_and_speak_of_the_events_of_re_encode() -> None:
    text = (DEPLOY / "automations.yaml").read_text()
    given = yaml.safe_load(re.sub(r"\$\{(NOTIFY|EVALUATE)\}", str(uuid4()), text))["automations"]
    held, promoted, _ = (AutomationCore.model_validate(each) for each in given)
    verdicts = {"held": held, "rejected": held, "promoted": promoted}
    for verdict, automation in verdicts.items():
        gate = GateRecord(2, "terms", "No worse.")
        judged = Generation("notes", 3, "2026-11-26T03:00:00+00:00", "run", {}, {}, "", verdict, gate)
        event = index_event(Path("/data/store"), judged, verdict == "promoted")
        assert isinstance(automation.trigger, EventTrigger)
        assert event["event"] in automation.trigger.expect
        assert automation.trigger.match.matches(Resource.model_validate(event["resource"]))
        (action,) = automation.actions
        context = {"event": Event(**event)}
        if isinstance(action, RunDeployment):
            assert action.parameters
            told = action.parameters["parameters"]
            rendered = {
                name: render_user_template_sync(value["template"], context)
                for name, value in told.items()
                if isinstance(value, dict)
            }
            form = EvaluateForm.model_validate(told | rendered)
            assert (form.store, form.index) == (Path("/data/store"), "notes")
        else:
            assert isinstance(action, SendNotification)
            assert render_user_template_sync(action.body, context) == "No worse."
            assert render_user_template_sync(action.subject, context) == f"Index notes: generation 3 is {verdict}"
