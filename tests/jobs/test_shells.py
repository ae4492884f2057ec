"""Commands over a real sshd on loopback, and in a local shell."""

from __future__ import annotations

import io
import shutil
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.shells import LocalShell, SshShell, Unreachable, archive

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")


class Server:
    """An sshd of our own with one authorized key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("host", "other_host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        (folder / "authorized").write_text((folder / "user.pub").read_text())
        (folder / "config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\n"
            f"HostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
            "StrictModes no\nPasswordAuthentication no\nPidFile none\nUsePAM no\nPermitRootLogin yes\n"
        )
        self.process = subprocess.Popen(
            [str(SSHD), "-D", "-e", "-f", str(folder / "config")], stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.1)

    def shell(self, key: str = "user", host_key: str = "host") -> SshShell:
        known = self.folder / f"known_{host_key}"
        public = " ".join((self.folder / f"{host_key}.pub").read_text().split()[:2])
        known.write_text(f"[127.0.0.1]:{self.port} {public}\n")
        return SshShell("127.0.0.1", port=self.port, key=self.folder / key, known_hosts=known)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if SSHD is None or shutil.which("ssh-keygen") is None:
        pytest.skip("no sshd on this machine")
    Path("/run/sshd").mkdir(exist_ok=True)
    made = Server(tmp_path_factory.mktemp("sshd"))
    yield made
    made.process.terminate()
    made.process.wait(timeout=10)


def test_a_command_over_ssh_gives_its_output_its_errors_and_its_code(server: Server) -> None:
    answer = server.shell().run("echo out; echo err >&2; exit 7")
    assert (answer.code, answer.out, answer.err) == (7, "out\n", "err\n")


def test_files_go_over_in_one_piece(server: Server, tmp_path: Path) -> None:
    shell = server.shell()
    shell.run(f"tar -x -C {tmp_path} -f -", stdin=archive({"a.sh": "echo ä\n", "b.py": "1\n"}))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.sh": "echo ä\n", "b.py": "1\n"}


def test_a_key_that_others_could_read_is_no_obstacle(server: Server) -> None:
    (server.folder / "user").chmod(0o644)
    assert server.shell().run("true").code == 0


def test_another_host_key_or_a_key_that_nobody_knows_is_unreachable(server: Server) -> None:
    with pytest.raises(Unreachable, match="Host key verification failed"):
        server.shell(host_key="other_host").run("true")
    with pytest.raises(Unreachable, match="Permission denied"):
        server.shell(key="other_host").run("true")


def test_a_port_that_nobody_listens_on_is_unreachable(server: Server) -> None:
    shell = server.shell()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed: int = free.getsockname()[1]
    with pytest.raises(Unreachable):
        SshShell("127.0.0.1", port=closed, key=server.folder / "user", known_hosts=server.folder / "known_host").run(
            "true"
        )
    assert shell.run("true").code == 0


def test_a_command_that_hangs_is_unreachable_after_its_time() -> None:
    with pytest.raises(Unreachable, match="no answer within"):
        LocalShell().run("sleep 5", timeout=0.2)


def test_a_local_shell_answers_alike() -> None:
    answer = LocalShell().run("cat; exit 3", stdin=b"text")
    assert (answer.code, answer.out) == (3, "text")


def test_an_archive_holds_plain_files() -> None:
    with tarfile.open(fileobj=io.BytesIO(archive({"x": "y"}))) as tar:
        assert [(member.name, member.mode, member.isfile()) for member in tar] == [("x", 0o644, True)]
