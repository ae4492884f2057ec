"""The NLB of a Service on a real API server: its host name, which on AWS comes from AWS.

With LOCALCLOUD_KUBECONFIG the cluster is real but the cloud around it is still the local one, so nobody would ever give
a LoadBalancer Service an address and the engine would wait for it until it gives up. Does what the AWS Load Balancer
Controller does to the Service's status, under the same conditions: it is installed, and the class asks for it.
Owns no object and writes nothing but that status.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import ssl
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

_CLASS = "service.k8s.aws/nlb"
_CONTROLLER = "/apis/apps/v1/deployments?labelSelector=app.kubernetes.io%2Fname%3Daws-load-balancer-controller"
_SECONDS = 2.0


class ApiServer:
    """What a kubeconfig's current context gives: address and identification (token or client certificate)."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        self.url = str(cluster["server"])
        self._headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        self._tls = ssl.create_default_context()
        if cluster.get("insecure-skip-tls-verify"):
            self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE
        elif authority := _material(cluster, "certificate-authority"):
            self._tls.load_verify_locations(cadata=authority.decode())
        if certificate := _material(user, "client-certificate"):
            with tempfile.NamedTemporaryFile() as pair:  # ssl reads client keys from files only
                pair.write(certificate + b"\n" + (_material(user, "client-key") or b""))
                pair.flush()
                self._tls.load_cert_chain(pair.name)

    def call(self, method: str, path: str, patch: Mapping[str, object] | None = None) -> dict[str, Any]:
        headers = {**self._headers, "Content-Type": "application/merge-patch+json"}
        body = None if patch is None else json.dumps(patch).encode()
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        with urllib.request.urlopen(request, context=self._tls, timeout=10) as answer:
            return json.load(answer)


@contextlib.contextmanager
def serving(kubeconfig: Path, region: str) -> Iterator[None]:
    """Give Services their host names while the block runs."""
    server, done = ApiServer(kubeconfig), threading.Event()

    def work() -> None:
        while not done.wait(_SECONDS):
            # It may be starting; the engine tells if it stays away.
            with contextlib.suppress(urllib.error.URLError, OSError):
                serve_once(server, region)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def serve_once(server: ApiServer, region: str) -> list[str]:
    """One round; returns the names of the Services that got a host name."""
    if not server.call("GET", _CONTROLLER)["items"]:
        return []
    served: list[str] = []
    for service in server.call("GET", "/api/v1/services")["items"]:
        if service["spec"].get("loadBalancerClass") == _CLASS and not service["status"].get("loadBalancer"):
            meta = service["metadata"]
            host = f"{meta['name']}-{hashlib.sha256(meta['uid'].encode()).hexdigest()[:16]}.elb.{region}.amazonaws.com"
            path = f"/api/v1/namespaces/{meta['namespace']}/services/{meta['name']}/status"
            server.call("PATCH", path, {"status": {"loadBalancer": {"ingress": [{"hostname": host}]}}})
            served.append(meta["name"])
    return served


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _material(entry: Mapping[str, Any], what: str) -> bytes | None:
    """A certificate or key, given inline or as a file."""
    if f"{what}-data" in entry:
        return base64.b64decode(entry[f"{what}-data"])
    return Path(entry[what]).read_bytes() if what in entry else None
