"""The AWS behind the stand-ins: one moto per process, with a journal that lets it survive being killed.

moto keeps everything in memory. Every request that may change something is written to an append-only file before it
runs, together with its time; on start the file is run again. What moto invents (ids, addresses, times) comes from one
generator that is seeded with the request's number and from one clock, so a replay invents the same.
Everyone reaches moto by HTTP on the port in `<state>/endpoint`; the stand-ins' own clients take the short way in.
"""

from __future__ import annotations

import datetime
import functools
import io
import json
import logging
import os
import re
import threading
import types
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import boto3
import botocore.config
import moto.backends
import moto.core.responses
import moto.core.utils
import moto.eks.utils
from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HeadersDict
from moto.backends import list_of_moto_modules
from moto.core.base_backend import AccountSpecificBackend
from moto.core.botocore_stubber import MockRawResponse
from moto.core.utils import method_names_from_class
from moto.moto_api._internal import mock_random
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from localcloud import ledger

ACCOUNT = "123456789012"
os.environ |= {
    "MOTO_ACCOUNT_ID": ACCOUNT,  # else moto searches five partitions for every caller
    "MOTO_IAM_LOAD_MANAGED_POLICIES": "true",
    "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
}
_KEPT_HEADERS = re.compile(r"(authorization|content-type|host|x-amz-target|x-amz-content-sha256)$", re.IGNORECASE)
_READS = re.compile(r"(Describe|Get|List|Head|Batch(Get|Check)|Check|Search|Lookup|Simulate|Validate)")
_REMOVES = re.compile(r"(Delete|Release|Cancel|Schedule|Terminate)")

Answer = tuple[int, list[tuple[str, str]], bytes]


class _Clock(datetime.datetime):
    """What moto sees as now: the time of the request at hand."""

    request_time = 0.0

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # pyright: ignore[reportIncompatibleMethodOverride]
        return datetime.datetime.fromtimestamp(cls.request_time, tz)


def _make_moto_deterministic() -> None:
    """A backend is built by whoever asks first, reader or writer: its default VPC must not depend on that."""
    clock = types.SimpleNamespace(**{**vars(datetime), "datetime": _Clock})
    moto.core.utils.__dict__["datetime"] = clock
    build = AccountSpecificBackend.__getitem__

    def seeded(self: AccountSpecificBackend[Any], region_name: str) -> Any:
        if region_name in self.keys():
            return build(self, region_name)
        before = mock_random.getstate()
        mock_random.seed(f"{self.service_name} {region_name}")
        try:
            return build(self, region_name)
        finally:
            mock_random.setstate(before)

    AccountSpecificBackend.__getitem__ = seeded


def _make_moto_quick() -> None:
    """moto reflects over its own package and classes at every request; the answers never change."""
    moto.backends.list_of_moto_modules = functools.cache(lambda: list(list_of_moto_modules()))
    moto.core.responses.__dict__["method_names_from_class"] = functools.cache(method_names_from_class)
    DomainDispatcherApplication.get_backend_for_host = functools.cache(DomainDispatcherApplication.get_backend_for_host)
    moto.eks.utils.__dict__["Session"] = functools.cache(
        boto3.Session
    )  # 60 ms per role ARN to read what regions there are


_make_moto_deterministic()
_make_moto_quick()
logging.getLogger("botocore").setLevel(logging.WARNING)


class Cloud:
    """moto plus journal. moto's backends are global to the process, so there is one Cloud per process."""

    def __init__(self, state_dir: Path) -> None:
        from localcloud.aws import moto_gaps  # its routes must be in place before moto builds its first application

        moto_gaps.install()
        state_dir.mkdir(parents=True, exist_ok=True)
        self._lost = ledger.ledger_at(state_dir).lost
        self._app = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.RLock()
        self._sequence = 0
        self.removals = 0  # requests so far that may have ended something
        self.seen: dict[tuple[str, str], int] = {}  # what a caller found, and the removals until then
        self.state_dir = state_dir
        path = state_dir / "journal.jsonl"
        if path.exists():
            self._replay(path)
        self._journal = path.open("a", encoding="utf-8")
        self.endpoint = self._listen()

    def _replay(self, path: Path) -> None:
        """Run the journal again, without what belongs to a create that was killed before its end.

        A torn last line is a request that was killed before it ran.
        """
        whole = 0
        for line in path.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            entry = json.loads(line)
            whole += len(line)
            if entry.get("create") in self._lost:
                self._sequence += 1
                continue
            body = entry["body"].encode("latin-1")
            self._run(entry["time"], entry["method"], entry["target"], entry["headers"], body)
        os.truncate(path, whole)

    def handle(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer one AWS request; one at a time, because the order decides what a replay gives."""
        with self._lock:
            now = datetime.datetime.now().timestamp()
            action = _action(method, headers, body)
            self.removals += bool(_REMOVES.match(action))
            if not _READS.match(action):
                kept = {k: v for k, v in headers.items() if _KEPT_HEADERS.match(k)}
                entry = {"time": now, "method": method, "target": target, "headers": kept}
                entry |= {"create": create} if (create := ledger.current()) else {}
                self._journal.write(json.dumps({**entry, "body": body.decode("latin-1")}) + "\n")
                self._journal.flush()
                return self._run(now, method, target, headers, body)
            _Clock.request_time = now
            return self._call(method, target, headers, body)

    def _run(self, time: float, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self._sequence += 1
        mock_random.seed(self._sequence)
        _Clock.request_time = time
        return self._call(method, target, headers, body)

    def _call(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        path, _, query = target.partition("?")
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "PATH_INFO": unquote(path).encode().decode("latin-1"),
            "RAW_URI": target,
            "QUERY_STRING": query,
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "SCRIPT_NAME": "",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": io.StringIO(),
            "wsgi.url_scheme": "http",
            "wsgi.version": (1, 0),
        }
        for name, value in headers.items():
            key = name.upper().replace("-", "_")
            environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
        started: list[Any] = []
        try:
            chunks: Iterable[bytes] = self._app(environ, lambda *args: started.append(args))
            return int(started[0][0].split()[0]), started[0][1], b"".join(chunks)
        except Exception as error:  # a moto bug must reach the caller as an answer, not kill the server
            text = f"moto failed: {type(error).__name__}: {error}"
            return 501, [("Content-Type", "text/plain")], text.encode()

    @functools.cache  # noqa: B019 - one Cloud per process
    def client(self, service: str, region: str) -> Any:
        """A boto3 client for this cloud: botocore validates every call before moto sees it."""
        client = boto3.client(
            service,
            region_name=region,
            endpoint_url=self.endpoint,
            aws_access_key_id="localcloud",
            aws_secret_access_key="localcloud",
            config=botocore.config.Config(
                retries={"max_attempts": 0}, inject_host_prefix=False, max_pool_connections=64, proxies={}
            ),
        )
        client.meta.events.register("before-send", self._answer)
        return client

    def _answer(self, request: AWSPreparedRequest, **kwargs: object) -> AWSResponse:
        """What the HTTP server would answer, without the way there: a third of the time of a request."""
        url, body = urlsplit(request.url), request.body or b""
        target = f"{url.path}?{url.query}" if url.query else url.path
        headers = {name: value if isinstance(value, str) else value.decode() for name, value in request.headers.items()}
        status, answered, content = self.handle(
            request.method, target, headers, body.encode() if isinstance(body, str) else body
        )
        return AWSResponse(request.url, status, HeadersDict(answered), MockRawResponse(content))

    def _listen(self) -> str:
        """Serve `handle` by HTTP, on the same port as last time if it is free; returns the endpoint."""
        cloud = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet; in two, the second waits 40 ms for an acknowledgement

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, headers, answer = cloud.handle(self.command, self.path, dict(self.headers.items()), body)
                self.send_response(status)
                for name, value in headers:
                    if name.lower() != "content-length":
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else answer)
                self.wfile.flush()

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = answer

            def log_message(self, format: str, *args: object) -> None:
                """Quiet: one line per request is noise here."""

        file = self.state_dir / "endpoint"
        wanted = int(file.read_text().rpartition(":")[2]) if file.exists() else 0
        try:
            server = ThreadingHTTPServer(("127.0.0.1", wanted), Handler)
        except OSError:
            server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        file.write_text(f"http://127.0.0.1:{server.server_address[1]}")
        return file.read_text()


def _action(method: str, headers: Mapping[str, str], body: bytes) -> str:
    """AWS's name of what is asked for; the HTTP method where the path says it."""
    for name, value in headers.items():
        if name.lower() == "x-amz-target":
            return value.rpartition(".")[2]
    found = re.search(rb"(?:^|&)Action=(\w+)", body)
    return found.group(1).decode() if found else method.title()


@functools.cache
def cloud_at(state_dir: Path) -> Cloud:
    """The process's Cloud; providers and daemon ask for it by the same directory."""
    return Cloud(state_dir)
