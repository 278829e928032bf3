"""A process that outlives a test run for a moment, to end its servers and remove their folder.

Run as `python keeper.py OWNER FOLDER`; it says its number and returns when it watches. However the owner ends, by
itself or by SIGKILL, the keeper sees it. A server is known by the `*.pid` file one level down, and only a process
whose command line names the folder is ended: a process that got the pid since then is left alone.
Standard library only, and nothing of ours, so that it starts fast.
"""

import glob
import os
import select
import shutil
import signal
import sys

PATIENCE_S = 10.0
SWEEPS_MAX = 600


def main(owner: int, folder: str) -> None:
    """Wait in the background until the owner has ended."""
    watch = os.pidfd_open(owner)
    keeper = os.fork()
    if keeper:
        print(keeper)
        return
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)  # readers of the output of the run must not wait for the keeper
    select.select([watch], [], [])
    for path in glob.glob(f"{folder}/*/*.pid"):
        end(path, folder)
    # The last processes of a killed server may still be writing while the first sweep goes on.
    for _ in range(SWEEPS_MAX):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        select.select([], [], [], 0.1)


def end(path: str, folder: str) -> None:
    """End the server that wrote this pid file: at once, and by SIGKILL if it does not react."""
    try:
        with open(path, encoding="utf-8") as file:
            pid = int(file.readline())
        process = os.pidfd_open(pid)
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if os.fsencode(folder) not in file.read():
                return
        for number in (signal.SIGQUIT, signal.SIGKILL):
            signal.pidfd_send_signal(process, number)
            if select.select([process], [], [], PATIENCE_S)[0]:
                return
    except (OSError, ValueError):
        return  # It has ended already, or never began.


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
