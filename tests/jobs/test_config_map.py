"""The results' way to the API server: over TLS with the pod's own token and authority."""

from __future__ import annotations

import datetime
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import ClassVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from jobs import results
from jobs.results import ConfigMapError, write_config_map


class _Api(http.server.BaseHTTPRequestHandler):
    """One ConfigMap, behind a token."""

    data: ClassVar[dict[str, str]] = {}

    def _answer(self, code: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.headers["Authorization"] != "Bearer secret-of-the-pod":
            self._answer(403, {"message": "forbidden"})
        elif not self.path.endswith("/namespaces/slurm/configmaps/results"):
            self._answer(404, {"message": "not found"})
        else:
            self._answer(200, {"data": self.data} if self.data else {})

    def do_PATCH(self) -> None:
        assert self.headers["Content-Type"] == "application/merge-patch+json"
        patch = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["data"]
        merged = {**self.data, **patch}
        type(self).data = {key: value for key, value in merged.items() if value is not None}
        self._answer(200, {"data": self.data})

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def _certificate(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    _certificate(tmp_path)
    (tmp_path / "token").write_text("secret-of-the-pod")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.crt", tmp_path / "key.pem")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Api)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    monkeypatch.setattr(results, "_ACCOUNT", tmp_path)
    monkeypatch.setattr(results, "_API", f"https://127.0.0.1:{server.server_address[1]}")
    _Api.data = {}
    yield tmp_path
    server.shutdown()


def test_the_first_results_go_into_an_empty_config_map_and_later_ones_replace_them(account: Path) -> None:
    write_config_map("slurm", "results", {"slinky.sanity": "1", "summary": "1"})
    assert _Api.data == {"slinky.sanity": "1", "summary": "1"}
    write_config_map("slurm", "results", {"summary": "2"})
    assert _Api.data == {"summary": "2"}


def test_a_refusal_and_a_foreign_server_are_told_and_not_swallowed(account: Path) -> None:
    with pytest.raises(ConfigMapError, match="404"):
        write_config_map("slurm", "other", {})
    (account / "token").write_text("stale")
    with pytest.raises(ConfigMapError, match="403"):
        write_config_map("slurm", "results", {})
    _certificate(account)
    with pytest.raises(ConfigMapError, match="certificate"):
        write_config_map("slurm", "results", {})
