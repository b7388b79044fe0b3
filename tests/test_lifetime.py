import os
import signal
import subprocess
import sys
import time

import pytest

from components import lifetime
from tests.waiting import LONGEST

_CHILD = """
import signal, sys, time
from components.lifetime import end_with_parent
end_with_parent(signal.SIGKILL)
print("watching", flush=True)
time.sleep(3600)
"""
_PARENT = f"""
import os, subprocess, sys, time
from components.lifetime import as_parent
child = subprocess.Popen([sys.executable, "-c", {_CHILD!r}], env=os.environ | as_parent(), stdout=subprocess.PIPE,
                         start_new_session=True, text=True)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(3600)
"""


def gone(pid: int, seconds: float = LONGEST) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not lifetime.start_time(pid):
            return True
        time.sleep(0.05)
    return False


_NO_PIDFD = """import os
def forbidden(pid): raise PermissionError
os.pidfd_open = forbidden
"""


@pytest.mark.parametrize("kernel", ["", _NO_PIDFD], ids=["with a pidfd", "without"])
def test_a_child_ends_with_a_parent_that_is_killed(kernel: str) -> None:
    code = _PARENT.replace(repr(_CHILD), repr(kernel + _CHILD))
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert not gone(child, 0.2)
    parent.kill()
    parent.wait()
    assert gone(child)


def test_a_child_whose_parent_was_gone_before_it_looked_ends_at_once() -> None:
    environment = os.environ | {lifetime.VARIABLE: f"{os.getpid()}:1"}  # the pid, but not of the process that had it
    ended = subprocess.run([sys.executable, "-c", _CHILD], env=environment, capture_output=True, timeout=LONGEST)
    assert ended.returncode == -signal.SIGKILL


def test_a_process_started_by_hand_watches_nobody() -> None:
    environment = {name: value for name, value in os.environ.items() if name != lifetime.VARIABLE}
    code = "from components.lifetime import end_with_parent; end_with_parent(); print('on')"
    assert subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True).stdout == b"on\n"


def test_descendants_are_all_below_and_nobody_else() -> None:
    grandchild = "import time; print('up', flush=True); time.sleep(3600)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    process = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    found = lifetime.descendants(os.getpid())
    assert process.pid in found and len(lifetime.descendants(process.pid)) == 1
    assert set(lifetime.descendants(process.pid)) <= set(found)
    for pid in (*lifetime.descendants(process.pid), process.pid):
        os.kill(pid, signal.SIGKILL)
    process.wait()


_STOPPABLE = """
import subprocess, sys, time
from components.lifetime import Stopped, stopping_in_order
with stopping_in_order(with_descendants=sys.argv[1] == "all"):
    try:
        if sys.argv[1] == "all":
            child = subprocess.Popen([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(3600)"])
        else:
            print("up", flush=True)
        time.sleep(3600)
    except Stopped as stopped:
        print(stopped, stopped.code, flush=True)
        sys.stdin.readline()  # a second signal has come
        print("clean", flush=True)
        raise
"""


@pytest.mark.parametrize(
    ("number", "told"), [(signal.SIGTERM, "stopped by SIGTERM 143"), (signal.SIGINT, "interrupted 130")]
)
@pytest.mark.parametrize("which", ["alone", "all"])
def test_a_stopped_process_cleans_up_undisturbed_and_ends_its_descendants(
    number: signal.Signals, told: str, which: str
) -> None:
    command = [sys.executable, "-c", _STOPPABLE, which]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None and process.stdout.readline() == "up\n"
    children = lifetime.descendants(process.pid)
    process.send_signal(number)
    assert process.stdout.readline() == f"{told}\n"
    process.send_signal(number)
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "clean\n"
    assert process.wait() == 128 + number
    assert all(gone(child) for child in children) and bool(children) == (which == "all")


_REPLACED = """
import sys, time
from components.lifetime import stopping_in_order
with stopping_in_order():
    try:
        print("up", flush=True)
        time.sleep(3600)
    except BaseException as stopped:  # as native code does in the middle of a call
        raise RuntimeError("cannot build the class") from (stopped if sys.argv[1] == "told" else None)
"""


@pytest.mark.parametrize("cause", ["told", "lost"])
def test_an_error_in_place_of_a_request_to_stop_is_that_request(cause: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", _REPLACED, cause], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM


_DROPPED = """
import time
from components.lifetime import stopping_in_order
class Slow:
    def __del__(self):
        print("up", flush=True)
        time.sleep(3600)
with stopping_in_order():
    slow = Slow()
    del slow
    time.sleep(3600)
    print("went on", flush=True)
"""


def test_a_request_to_stop_that_python_drops_is_made_again() -> None:
    process = subprocess.Popen([sys.executable, "-c", _DROPPED], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=LONGEST) == (b"", b"") and process.returncode == 128 + signal.SIGTERM
