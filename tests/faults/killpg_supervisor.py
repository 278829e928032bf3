"""The control of `test_runaway_commands.py`: a supervisor that kills the command's process group and nothing else.

It speaks the protocol of `wakelog.processes.supervisor`, and reports a stopped command as it used to be reported.
"""

import os
import select
import signal
import sys


def main(lifeline, report, command):
    """Run a command until the lifeline closes, and kill its process group."""
    for descriptor in (lifeline, report):
        os.set_inheritable(descriptor, False)
    group = os.posix_spawn(command[0], command, os.environ, setpgroup=0)
    select.select([lifeline], [], [])
    os.killpg(group, signal.SIGKILL)
    os.waitpid(group, 0)
    os.write(report, f"began {group}\nsignalled {signal.SIGKILL.value}\nstopped\n".encode())


main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[4:])
