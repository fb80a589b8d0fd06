"""Java: which this machine has, and whether it is one that Spark can use."""

from __future__ import annotations

import functools
import os
import re
import shutil

from hyperslab.errors import UsageError
from hyperslab.machine.asking import asked

OLDEST_JAVA = 17
"What PySpark 4 needs."


def require_java(who: str) -> None:
    """Raise UsageError, for who needs it, when there is no Java that Spark can use, with what to
    do.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java")
    if home:
        java = os.path.join(home, "bin", "java")
    advice = (
        f"install Java {OLDEST_JAVA} or newer (Debian package openjdk-17-jre-headless), or set"
        " JAVA_HOME to one"
    )
    if not java or not os.access(java, os.X_OK):
        where = "there is no java on the PATH"
        if home:
            where = f"JAVA_HOME={home} holds no bin/java"
        raise UsageError(f"{who} needs Java, and {where}: {advice}")
    if (version := _version(java)) < OLDEST_JAVA:
        raise UsageError(
            f"{who} needs Java {OLDEST_JAVA} or newer, and {java} is version {version}: {advice}"
        )


@functools.lru_cache(maxsize=4)
def _version(java: str) -> int:
    """First number of its version, as `java -version` says it; Java 8 calls itself 1.8."""
    said = asked([java, "-version"]).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found:
        return int(found[1])
    return 0
