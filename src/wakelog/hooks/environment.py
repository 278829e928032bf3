"""The `environment` hook: working folder, date, system and git branch. Reads files and runs no program."""

import os
import platform

from wakelog.log.times import iso
from wakelog.ports import RunInfo
from wakelog.projects import git_branch


class Environment:
    """See `ports.Hook`."""

    name = "environment"

    async def before_run(self, occasion: RunInfo) -> str:
        """See `ports.Hook`."""
        cwd = occasion.cwd or os.getcwd()
        lines = [
            f"folder: {cwd}",
            f"date: {iso(occasion.now_ms)[:10]}",
            f"system: {platform.system()} {platform.machine()}",
        ]
        branch = git_branch(cwd)
        if branch:
            lines.append(f"git branch: {branch}")
        return "\n".join(["<environment>", *lines, "</environment>"])
