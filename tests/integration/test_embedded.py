"""The embedded Valkey: private, durable, on a socket that fits, never two supervisors."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from config.errors import SettingsError
from gateway import embedded
from gateway.supervisor import AlreadyRunning, Child, Supervisor, await_orphans, lock_folder, read_pid, restart_delay_s

ROOT = Path(__file__).resolve().parents[2]


def wait(condition: Callable[[], bool], limit_s: float = 10.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def start(data_dir: Path) -> subprocess.Popen[bytes]:
    engine = embedded.find_engine()
    process = subprocess.Popen(embedded.prepare(data_dir, engine), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait(lambda: embedded.answers(embedded.socket_path(data_dir)))
    return process


def client(data_dir: Path) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(embedded.socket_path(data_dir)))


def test_n_19_socket_and_folders_are_private_and_nothing_is_on_the_network(tmp_path: Path) -> None:
    """N-19: the Valkey socket and the data folder are 0700; no TCP port is open."""
    process = start(tmp_path / "data")
    try:
        assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "data" / "run").stat().st_mode & 0o777 == 0o700
        assert embedded.socket_path(tmp_path / "data").stat().st_mode & 0o777 == 0o700
        with client(tmp_path / "data") as connection:
            assert connection.config_get("port")["port"] == "0"
            assert connection.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
            assert connection.config_get("appendonly")["appendonly"] == "yes"
    finally:
        process.terminate()
        process.wait(10)


def test_what_was_written_survives_kill_9(tmp_path: Path) -> None:
    process = start(tmp_path)
    with client(tmp_path) as connection:
        connection.config_set("appendfsync", "always")
        connection.set("kept", "1")
    process.kill()
    process.wait(10)
    assert embedded.socket_path(tmp_path).exists()
    process = start(tmp_path)
    with client(tmp_path) as connection:
        assert connection.get("kept") == b"1"
    process.terminate()
    process.wait(10)


def test_a_server_that_outlived_its_supervisor_is_asked_to_go(tmp_path: Path) -> None:
    old = start(tmp_path)
    new = start(tmp_path)
    try:
        assert old.wait(10) == 0
    finally:
        new.terminate()
        new.wait(10)


def test_a_long_data_folder_gets_a_short_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    path = embedded.socket_path(deep)
    assert len(os.fsencode(path)) <= 100
    assert path != embedded.socket_path(tmp_path / ("y" * 120))
    process = start(deep)
    try:
        assert path.parent.stat().st_mode & 0o777 == 0o700
    finally:
        process.terminate()
        process.wait(10)
        path.parent.rmdir()


def test_files_of_an_engine_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    engine = embedded.find_engine()
    embedded.prepare(tmp_path, engine)
    (tmp_path / "valkey" / "appendonlydir").mkdir()
    (tmp_path / "valkey" / "appendonlydir" / "x.aof").touch()
    (tmp_path / "valkey" / "engine").write_text("valkey 99\n")
    with pytest.raises(embedded.EngineChanged, match="是 valkey 99 写的"):
        embedded.prepare(tmp_path, engine)


@pytest.mark.parametrize(
    ("name", "before", "reads"),
    [
        ("valkey 9", "valkey 8", True),
        ("valkey 8", "valkey 9", False),
        ("valkey 9", "redis 7", True),
        ("redis 7", "valkey 9", False),
        ("valkey 9", "redis 8", False),
    ],
)
def test_which_engine_reads_whose_files(name: str, before: str, reads: bool) -> None:
    assert embedded._reads(name, before) is reads


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(SettingsError, match="属于别的用户"):
        embedded.private_folder(tmp_path)


def test_n_19_a_data_folder_that_was_open_is_closed(tmp_path: Path) -> None:
    """N-19: serve and worker make the data folder 0700, also one that somebody made before."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    embedded.tighten(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_two_supervisors_on_one_folder(tmp_path: Path) -> None:
    handle = lock_folder(tmp_path)
    with pytest.raises(AlreadyRunning, match=f"进程 {os.getpid()}"):
        lock_folder(tmp_path)
    os.close(handle)
    os.close(lock_folder(tmp_path))


def test_killed_children_come_back_at_once_and_crashing_ones_slower_but_always() -> None:
    delays = [restart_delay_s(quick) for quick in range(12)]
    assert delays[0] == delays[1] == 0.05
    assert delays == sorted(delays)
    assert max(delays) == 5.0
    assert delays[4] < 1.0


SUPERVISED = """
import sys
from pathlib import Path
from gateway.supervisor import Child, Supervisor
folder = Path(sys.argv[1])
(folder / "run").mkdir(exist_ok=True)
child = [sys.executable, "-c", "import time; time.sleep(600)  # gateway.cli"]
sys.exit(Supervisor(folder, [Child("serve", child), Child("valkey", child, last=True)]).run())
"""


def supervise(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", SUPERVISED, str(folder)], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )


def pid_of(folder: Path, name: str) -> int:
    wait(lambda: read_pid(folder / "run" / f"{name}.pid") is not None)
    pid = read_pid(folder / "run" / f"{name}.pid")
    assert pid is not None
    return pid


def alive(pid: int) -> bool:
    try:
        return b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_a_dead_child_is_back_within_a_second_time_after_time(tmp_path: Path) -> None:
    supervisor = supervise(tmp_path)
    try:
        for _ in range(4):
            pid = pid_of(tmp_path, "serve")
            wait(lambda pid=pid: alive(pid))  # type: ignore[misc]
            os.kill(pid, signal.SIGKILL)
            wait(lambda pid=pid: pid_of(tmp_path, "serve") != pid, 1.0)  # type: ignore[misc]
        last, valkey = pid_of(tmp_path, "serve"), pid_of(tmp_path, "valkey")
        supervisor.terminate()
        assert supervisor.wait(10) == 0
        assert not alive(last)
        assert not alive(valkey)
    finally:
        supervisor.kill()
        supervisor.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="a parent's death is signalled on Linux only")
def test_children_end_with_a_killed_supervisor(tmp_path: Path) -> None:
    supervisor = supervise(tmp_path)
    pids = [pid_of(tmp_path, name) for name in ("serve", "valkey")]
    wait(lambda: all(map(alive, pids)))
    supervisor.kill()
    supervisor.wait()
    await_orphans(tmp_path / "run", ["serve", "valkey"])
    assert not any(map(alive, pids))
    assert not list((tmp_path / "run").glob("*.pid"))


def test_a_child_that_cannot_run_ends_everything(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    fatal = Child("serve", [sys.executable, "-c", "print('设置有误', flush=True); raise SystemExit(2)"])
    supervisor = Supervisor(tmp_path, [fatal])
    assert supervisor.run() == 1
    assert supervisor.gave_up == "serve"
    assert "设置有误" in (tmp_path / "logs" / "serve.log").read_text("utf-8")


def test_settings_that_are_being_edited_end_nothing(tmp_path: Path) -> None:
    """A file saved half while a child happens to be restarted: the others run on, and it comes back with the whole file."""
    (tmp_path / "run").mkdir()
    settings = tmp_path / "good"
    script = f"import pathlib, time; pathlib.Path({str(settings)!r}).exists() or exit(2); time.sleep(600)"
    asked: list[bool] = []

    def may_mend() -> bool:
        asked.append(True)
        if len(asked) == 2:
            settings.touch()
        return True

    other = Child("worker", [sys.executable, "-c", "import time; time.sleep(600)"])
    supervisor = Supervisor(tmp_path, [Child("serve", [sys.executable, "-c", script]), other], may_mend=may_mend)
    lived: list[int] = []

    def look() -> bool:
        pid = read_pid(tmp_path / "run" / "worker.pid")
        lived.extend([pid] if pid is not None else [])
        serve = supervisor.children[0]
        if settings.exists() and serve.process is not None and time.monotonic() - serve.started_at > 0.5:
            supervisor.stop()
        return False

    assert supervisor.run(look) == 0
    assert supervisor.gave_up is None
    assert len(asked) == 2
    assert len(set(lived)) == 1


def test_a_disk_that_takes_nothing_does_not_end_the_supervisor(tmp_path: Path) -> None:
    """A full disk takes neither pid file nor log file. The child runs all the same, and is noted once there is room."""
    for blocked in ("run/serve.pid.new", "logs/serve.log"):  # a folder in its place refuses a file even to root
        (tmp_path / blocked).mkdir(parents=True)
    seen = tmp_path / "seen"
    script = f"import pathlib, time; pathlib.Path({str(seen)!r}).touch(); time.sleep(600)"
    supervisor = Supervisor(tmp_path, [Child("serve", [sys.executable, "-c", script])])
    pid_file = tmp_path / "run" / "serve.pid"

    def look() -> bool:
        if seen.exists() and (tmp_path / "run" / "serve.pid.new").exists():
            assert not pid_file.exists()
            (tmp_path / "run" / "serve.pid.new").rmdir()
        elif pid_file.exists():
            supervisor.stop()
        return False

    assert supervisor.run(look) == 0
    assert supervisor.gave_up is None


def test_a_port_that_is_taken_is_named_with_its_option(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "gateway.cli", "up", "--data-dir", str(tmp_path / "d"), "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 2
    assert f"端口 {port} 已被别的程序占用" in done.stderr
    assert "--port" in done.stderr


def test_a_data_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file in its place refuses even root; the person is told which path and why, without a stack trace."""
    blocked = tmp_path / "驿站 data"
    blocked.write_text("a file")
    command = [sys.executable, "-m", "gateway.cli", "up", "--demo", "--data-dir", str(blocked)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 1
    assert f"{blocked} 不能读写" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_database_ends_up_with_advice(tmp_path: Path) -> None:
    """No restart mends it: everything ends with exit code 1, and the last words say what to do."""
    (tmp_path / "yizhan.db").write_bytes(b"no database " * 1000)
    ports = ["--port", "0", "--admin-port", "0"]
    command = [sys.executable, "-m", "gateway.cli", "up", "--data-dir", str(tmp_path), *ports]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environ, timeout=60)
    assert done.returncode == 1
    assert f"数据库文件 {tmp_path / 'yizhan.db'} 已损坏" in done.stderr
    assert "放回最近的备份" in done.stderr
    assert "Traceback" not in done.stderr
