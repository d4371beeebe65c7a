"""What the wheel, the container, the systemd unit and the examples of clusters promise, read from their files."""

import json
import re
import shlex
import tomllib
from collections import defaultdict
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from recollect.settings import PREFIX, load_settings, setting_names

REPOSITORY = Path(__file__).resolve().parents[4]
BACKEND = REPOSITORY / "backend"
SERVICE = REPOSITORY / "packaging" / "recollect.service"
KUBERNETES = REPOSITORY / "examples" / "kubernetes"


def lines_of(file: str) -> list[str]:
    """Without comments; a line that ends with a backslash goes on in the next one."""
    text = re.sub(r"^\s*#.*\n", "", (REPOSITORY / file).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def stages() -> list[dict[str, list[str]]]:
    """The instructions of each stage of the Dockerfile, by their names."""
    found: list[dict[str, list[str]]] = []
    for line in lines_of("Dockerfile"):
        name, _, argument = line.partition(" ")
        if name == "FROM":
            found.append(defaultdict(list))
        found[-1][name].append(argument.strip())
    return found


def variables(stage: dict[str, list[str]]) -> dict[str, str]:
    return dict(pair.split("=", 1) for line in stage["ENV"] for pair in shlex.split(line))


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe").load(REPOSITORY / "compose.yaml")
    return loaded


def unit() -> dict[str, list[str]]:
    """The settings of [Service], each with all of its values."""
    found = defaultdict(list)
    for line in SERVICE.read_text(encoding="utf-8").split("[Service]")[1].split("[Install]")[0].splitlines():
        if "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            found[name].append(value)
    return found


# --- the wheel ----------------------------------------------------------------------------------------------


def test_the_metadata_has_what_an_index_shows() -> None:
    project = tomllib.loads((BACKEND / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (project["license"], project["license-files"], project["readme"]) == (
        "Apache-2.0",
        ["LICENSE"],
        "README.md",
    )
    assert project["description"]
    assert project["keywords"]
    assert len(project["classifiers"]) > 5
    # The models are downloaded by pip at run time, and uvx and pipx make environments without it.
    assert any(re.match(r"pip\b(?!-)", each) for each in project["dependencies"])


@pytest.mark.parametrize(
    ("link", "target"), [("README.md", "README.md"), ("LICENSE", "LICENSE"), ("recollect/web", "frontend")]
)
def test_what_lies_outside_the_project_is_linked_into_it(link: str, target: str) -> None:
    assert (BACKEND / link).is_symlink()
    assert (BACKEND / link).resolve() == REPOSITORY / target


# --- the container ------------------------------------------------------------------------------------------


def test_the_image_is_built_in_stages_and_runs_as_a_user_without_rights() -> None:
    _build, image = stages()
    assert image["USER"] == ["10001"]
    assert "--uid 10001" in image["RUN"][0]
    assert all(each.startswith("--from=build ") for each in image["COPY"])
    assert not any("pip install" in each for each in image["RUN"])


def test_the_home_is_a_volume_of_that_user() -> None:
    image = stages()[-1]
    home = variables(image)["RECOLLECT_HOME"]
    assert image["VOLUME"] == [home]
    assert any(f"--owner recollect --group recollect --mode 700 {home}" in each for each in image["RUN"])


def test_the_health_check_asks_the_port_that_is_served() -> None:
    image = stages()[-1]
    port = variables(image)["RECOLLECT_PORT"]
    assert image["EXPOSE"] == [port]
    assert f"http://127.0.0.1:{port}/health" in image["HEALTHCHECK"][0]


def test_the_container_starts_the_server_and_takes_other_commands() -> None:
    image = stages()[-1]
    assert (json.loads(image["ENTRYPOINT"][0]), json.loads(image["CMD"][0])) == (["recollect"], ["serve"])


def test_the_build_gets_every_file_it_copies_and_no_others() -> None:
    taken = {line.removeprefix("!") for line in lines_of(".dockerignore") if line.startswith("!")}
    copied = {name for line in stages()[0]["COPY"] for name in line.split()[:-1]}
    assert lines_of(".dockerignore")[0] == "*"
    assert copied == taken
    assert all((REPOSITORY / name).exists() for name in copied)


def test_compose_serves_this_machine_alone_and_keeps_the_home() -> None:
    described = compose()
    server = described["services"]["recollect"]
    (port,) = server["ports"]
    assert port == "127.0.0.1:8600:8600"
    assert server["volumes"] == [f"home:{variables(stages()[-1])['RECOLLECT_HOME']}"]
    assert [name for name, each in described["services"].items() if "profiles" not in each] == [
        "recollect",
        "ollama",
    ]
    assert (server["read_only"], server["cap_drop"]) == (True, ["ALL"])


def test_compose_lets_the_server_use_the_ollama_beside_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    services = compose()["services"]
    for name, value in services["recollect"]["environment"].items():
        monkeypatch.setenv(name, value)
    llm = load_settings(home=tmp_path).llm
    assert (llm.kind, llm.local, llm.base_url) == ("ollama", True, "http://ollama:11434")
    assert services["recollect"]["depends_on"] == ["ollama"]


# --- several servers ----------------------------------------------------------------------------------------


def test_the_image_has_the_drivers_of_postgresql_and_s3() -> None:
    project = tomllib.loads((BACKEND / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (install,) = (each for each in stages()[0]["RUN"] if "pip install" in each)
    (named,) = re.findall(r"/backend\[([a-z0-9,]+)\]", install)
    assert set(named.split(",")) == project["optional-dependencies"].keys() - {"dev"}


def test_members_of_compose_are_reached_by_their_names_and_share_all_else() -> None:
    services = compose()["services"]
    given = {
        name: dict(each["environment"]) for name, each in services.items() if each.get("image") == "recollect"
    }
    del given["recollect"]
    addresses = {name: each.pop("RECOLLECT_MEMBER_URL") for name, each in given.items()}
    assert addresses == {
        name: f"http://{name}:8600" for name in ("server-1", "server-2", "server-3", "worker")
    }
    shared, *others = given.values()
    assert all(each == shared for each in others)
    assert [name for name in given if services[name].get("command") == ["worker"]] == ["worker"]


def test_compose_points_clients_at_the_servers_and_at_no_worker() -> None:
    described = compose()
    (proxied,) = re.findall(r"reverse_proxy (.+) {", described["configs"]["proxy"]["content"])
    assert proxied.split() == ["server-1:8600", "server-2:8600", "server-3:8600"]
    cluster = {name for name, each in described["services"].items() if each.get("profiles") == ["cluster"]}
    assert [name for name in cluster if "ports" in described["services"][name]] == ["cluster"]


def test_the_settings_of_a_member_in_compose_are_valid(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    services = compose()["services"]
    for name, value in services["worker"]["environment"].items():
        monkeypatch.setenv(name, value)
    settings = load_settings(home=tmp_path)
    assert settings.member_url == "http://worker:8600"
    assert settings.files_url == f"s3://{services['s3']['environment']['S3_BUCKET']}/vault"
    assert settings.postgres_url is not None
    assert "@postgres/" in settings.postgres_url


def kubernetes(kind: str) -> dict[str, dict[str, Any]]:
    """The resources of a kind by their names."""
    documents = [
        each for file in sorted(KUBERNETES.glob("*.yaml")) for each in YAML(typ="safe").load_all(file)
    ]
    return {each["metadata"]["name"]: each for each in documents if each["kind"] == kind}


def pod(deployment: str) -> dict[str, Any]:
    described: dict[str, Any] = kubernetes("Deployment")[deployment]["spec"]["template"]["spec"]
    return described


def container(deployment: str) -> dict[str, Any]:
    (described,) = pod(deployment)["containers"]
    return dict(described)


def test_a_worker_in_kubernetes_is_a_server_that_no_service_selects() -> None:
    server, worker = container("recollect"), container("recollect-worker")
    assert (server.pop("args"), worker.pop("args")) == (["serve"], ["worker"])
    assert server == worker
    labels = {
        name: each["spec"]["template"]["metadata"]["labels"]
        for name, each in kubernetes("Deployment").items()
    }
    selectors = {
        name: each["spec"]["selector"]["matchLabels"]
        for name, each in kubernetes("PodDisruptionBudget").items()
    }
    assert selectors == labels
    assert kubernetes("Service")["recollect"]["spec"]["selector"] == labels["recollect"]


def test_a_pod_tells_the_others_its_address_before_a_service_tells_it_a_port() -> None:
    for described in (
        pod("recollect"),
        pod("recollect-worker"),
        kubernetes("Job")["recollect-key"]["spec"]["template"]["spec"],
    ):
        (given,) = described["containers"]
        address, member_url = given["env"]
        assert address["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
        assert (address["name"], member_url) == (
            "POD_IP",
            {"name": "RECOLLECT_MEMBER_URL", "value": "http://$(POD_IP):8600"},
        )
        # A Service named `recollect` would set RECOLLECT_PORT to `tcp://…`.
        assert described["enableServiceLinks"] is False


def test_probes_ask_routes_that_exist_and_only_readiness_depends_on_the_leader() -> None:
    paths = json.loads((REPOSITORY / "docs" / "openapi.json").read_text(encoding="utf-8"))["paths"]
    asked = {
        name: container("recollect")[name]["httpGet"]["path"]
        for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert asked == {
        "startupProbe": "/health/live",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health",
    }
    assert paths.keys() >= set(asked.values())


def test_a_pod_ends_after_what_it_may_take_and_its_home_is_its_own(tmp_path: Path) -> None:
    described = pod("recollect")
    assert described["terminationGracePeriodSeconds"] > 10 + load_settings(home=tmp_path).jobs.stop_seconds
    assert {each["name"]: each["emptyDir"] for each in described["volumes"]} == {"home": {}, "tmp": {}}
    mounted = {each["mountPath"] for each in container("recollect")["volumeMounts"]}
    assert mounted == {variables(stages()[-1])["RECOLLECT_HOME"], "/tmp"}
    assert str(described["securityContext"]["runAsUser"]) == stages()[-1]["USER"][0]


# --- the service of the system ------------------------------------------------------------------------------


def test_the_unit_runs_as_its_own_user_in_its_own_folders() -> None:
    told = unit()
    parsed = ConfigParser(strict=False)
    parsed.read(SERVICE, encoding="utf-8")
    assert parsed.sections() == ["Unit", "Service", "Install"]
    assert (told["User"], told["StateDirectory"], told["UMask"]) == (["recollect"], ["recollect"], ["0077"])
    assert told["Environment"] == [
        "RECOLLECT_HOME=/var/lib/recollect",
        "RECOLLECT_MODELS_FOLDER=/var/cache/recollect/models",
    ]
    assert told["CacheDirectory"] == ["recollect"]


def test_the_unit_restarts_and_is_locked_in() -> None:
    told = unit()
    assert told["Restart"] == ["on-failure"]
    assert told["ExecStart"][0].endswith("recollect serve")
    assert (told["NoNewPrivileges"], told["ProtectSystem"], told["ProtectHome"]) == (
        ["yes"],
        ["strict"],
        ["yes"],
    )
    assert told["CapabilityBoundingSet"] == [""]
    # The server doesn't tell systemd that it lives: a watchdog would kill it.
    assert "WatchdogSec" not in told


@pytest.mark.parametrize(
    "file",
    [
        "Dockerfile",
        "compose.yaml",
        "packaging/recollect.service",
        "examples/kubernetes/recollect.yaml",
        "examples/kubernetes/secret.yaml",
        "examples/kubernetes/key.yaml",
    ],
)
def test_every_setting_named_there_exists(file: str) -> None:
    named = set(re.findall(rf"\b{PREFIX}\w+", (REPOSITORY / file).read_text(encoding="utf-8")))
    assert named
    assert named <= setting_names().keys()
