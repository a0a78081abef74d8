"""Every file is valid in the eyes of the tool that reads it, and says what a supervised service needs."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from acceptance.deploy.helm import render
from acceptance.shell import Shell

Manifest = dict[str, Any]
OLDEST_KUBERNETES = "1.30"
CUSTOM = ("keda.sh/v1alpha1", "kustomize.config.k8s.io/v1beta1")  # kinds that Kubernetes itself does not have


def manifests(folder: Path) -> list[Manifest]:
    texts = [path.read_text() for path in sorted(folder.glob("*.yaml"))]
    return [document for text in texts for document in yaml.safe_load_all(text)]


def of_kind(found: list[Manifest], kind: str) -> dict[str, Manifest]:
    return {each["metadata"]["name"]: each for each in found if each["kind"] == kind}


@pytest.fixture
def k8s(shop: Shell) -> list[Manifest]:
    shop.out("deploy", "init", "k8s", "--queue", "mail", "--queue", "a:b")
    return manifests(shop.directory / "deploy/k8s")


@pytest.fixture
def chart(shop: Shell) -> Path:
    shop.out("deploy", "init", "helm", "--queue", "mail", "--queue", "a:b")
    return shop.directory / "deploy/helm"


def validate(found: list[Manifest]) -> None:
    for version in (OLDEST_KUBERNETES, kubernetes_validate.latest_version()):
        for manifest in found:
            if manifest["apiVersion"] not in CUSTOM:
                kubernetes_validate.validate(manifest, version, strict=True)


def test_kubernetes_accepts_every_manifest(k8s: list[Manifest]) -> None:
    validate(k8s)
    assert len(of_kind(k8s, "Deployment")) == 4 and len(of_kind(k8s, "PodDisruptionBudget")) == 2


def test_the_validator_would_notice_a_misspelt_field(k8s: list[Manifest]) -> None:
    worker = of_kind(k8s, "Deployment")["shop-worker"]
    worker["spec"]["template"]["spec"]["terminationGracePeriod"] = 5
    with pytest.raises(kubernetes_validate.ValidationError):
        validate([worker])


def test_kustomize_builds_all_of_it_into_one_namespace(shop: Shell, k8s: list[Manifest]) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed; install Debian's kubernetes-client to run this")
    built = subprocess.run(
        ["kubectl", "kustomize", "deploy/k8s"], cwd=shop.directory, capture_output=True, text=True, timeout=60
    )
    assert built.returncode == 0, built.stderr
    documents = list(yaml.safe_load_all(built.stdout))
    validate(documents)
    assert {each["metadata"]["namespace"] for each in documents} == {"shop"}
    wanted = [each for each in k8s if each["kind"] not in ("Kustomization", "ScaledObject")]
    assert sorted((each["kind"], each["metadata"]["name"]) for each in documents) == sorted(
        (each["kind"], each["metadata"]["name"]) for each in wanted
    )


def test_every_pod_is_confined_limited_and_supervised(k8s: list[Manifest]) -> None:
    for name, deployment in of_kind(k8s, "Deployment").items():
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["limits"]) == {"cpu", "memory"}
        assert container["envFrom"] == [{"secretRef": {"name": "shop-stem"}}]
        assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}
        ports = {port["name"] for port in container.get("ports", [])}
        probes = [container[key]["httpGet"] for key in ("livenessProbe", "readinessProbe") if key in container]
        assert {probe["port"] for probe in probes} <= ports
        assert len(probes) == (0 if name == "shop-pipeline" else 2)


def test_probes_of_worker_and_scheduler_are_livez_and_readyz(k8s: list[Manifest]) -> None:
    for name in ("shop-worker", "shop-beat"):
        (container,) = of_kind(k8s, "Deployment")[name]["spec"]["template"]["spec"]["containers"]
        assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_grace_of_a_worker_is_longer_than_its_warm_shutdown(shop: Shell, k8s: list[Manifest], chart: Path) -> None:
    pods = [of_kind(found, "Deployment")["shop-worker"] for found in (k8s, render(chart, release="shop"))]
    for pod in (each["spec"]["template"]["spec"] for each in pods):
        (flag,) = [word for word in pod["containers"][0]["args"] if word.startswith("--warm-timeout=")]
        assert pod["terminationGracePeriodSeconds"] >= seconds(flag.partition("=")[2]) + 30
        assert "preStop" in pod["containers"][0]["lifecycle"]
    shop.out("deploy", "init", "compose")
    services = yaml.safe_load((shop.directory / "deploy/compose/compose.yaml").read_text())["services"]
    (flag,) = [word for word in services["worker"]["command"] if word.startswith("--warm-timeout=")]
    assert seconds(services["worker"]["stop_grace_period"]) >= seconds(flag.partition("=")[2]) + 30


def seconds(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([sm])", text).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1, "m": 60}[unit]


def test_budgets_services_and_scaling_name_pods_and_ports_that_exist(k8s: list[Manifest]) -> None:
    pods = [each["spec"]["template"] for each in of_kind(k8s, "Deployment").values()]
    budgets = [each["spec"]["selector"]["matchLabels"] for each in of_kind(k8s, "PodDisruptionBudget").values()]
    services = of_kind(k8s, "Service")
    for labels in [*budgets, *(each["spec"]["selector"] for each in services.values())]:
        (pod,) = [pod for pod in pods if labels.items() <= pod["metadata"]["labels"].items()]
        assert pod["spec"]["containers"]
    (scaled,) = of_kind(k8s, "ScaledObject").values()
    assert scaled["spec"]["scaleTargetRef"]["name"] in of_kind(k8s, "Deployment")
    assert 1 <= scaled["spec"]["minReplicaCount"] < scaled["spec"]["maxReplicaCount"]
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["type"] == "metrics-api" and trigger["metadata"]["valueLocation"] == "value"
    url = trigger["metadata"]["url"]
    assert url == "http://shop-beat.shop.svc:8080/scale?queue=mail&queue=a%3Ab"
    assert services["shop-beat"]["spec"]["ports"][0]["port"] == 8080
    # KEDA reads the metadata of a trigger as text.
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    assert "replicas" not in of_kind(k8s, "Deployment")["shop-worker"]["spec"]


def test_the_chart_renders_to_the_same_manifests(k8s: list[Manifest], chart: Path) -> None:
    rendered = helm(chart, {"keda": {"enabled": True}, "worker": {"warmTimeoutSeconds": 540}})
    validate(rendered)
    plain = [each for each in k8s if each["kind"] != "Kustomization"]
    assert as_lines(rendered) == as_lines(plain)


def helm(chart: Path, values: Manifest) -> list[Manifest]:
    """What Helm makes of the chart, or if it is not installed, what it should."""
    program = shutil.which("helm")
    if program is None:
        return render(chart, release="shop", values=values)
    words = [program, "template", "shop", str(chart), "--namespace", "shop", "--values", "-"]
    done = subprocess.run(words, input=json.dumps(values), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def as_lines(found: list[Manifest]) -> list[str]:
    """Without what may differ: the namespace, which Helm adds, and how a duration or a query is spelt."""
    for manifest in found:
        manifest["metadata"].pop("namespace", None)
    text = "\n".join(sorted(json.dumps(each, sort_keys=True) for each in found))
    return text.replace("--warm-timeout=9m", "--warm-timeout=540s").replace("a%3Ab", "a:b").splitlines()


def test_the_chart_follows_its_values(chart: Path) -> None:
    values = {
        "queues": [],
        "worker": {"replicas": 7, "concurrency": 2, "warmTimeoutSeconds": 30},
        "dashboard": {"allowedHosts": ["stem.example.org"]},
        "pipeline": {"enabled": False},
    }
    rendered = helm(chart, values)
    validate(rendered)
    deployments = of_kind(rendered, "Deployment")
    assert set(deployments) == {"shop-worker", "shop-beat", "shop-dashboard"} and not of_kind(rendered, "ScaledObject")
    worker = deployments["shop-worker"]["spec"]
    assert worker["replicas"] == 7 and worker["template"]["spec"]["terminationGracePeriodSeconds"] == 90
    assert not any("--queue" in word for word in words_of(worker))
    assert "--allowed-host=stem.example.org" in words_of(deployments["shop-dashboard"]["spec"])
    everywhere = helm(chart, {"queues": [], "keda": {"enabled": True}})
    (scaled,) = of_kind(everywhere, "ScaledObject").values()
    assert scaled["spec"]["triggers"][0]["metadata"]["url"].endswith(":8080/scale")
    assert yaml.safe_load((chart / "Chart.yaml").read_text())["apiVersion"] == "v2"


def words_of(spec: Manifest) -> Iterator[str]:
    return iter(spec["template"]["spec"]["containers"][0]["args"])
