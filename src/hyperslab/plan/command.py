"""CommandTask: a command over files, as a task of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandTask:
    """One command, the files that it reads, and the files that it makes.

    In the words of `argv` stand placeholders for what is known only where the command runs:

    - `{out}`: a private, empty directory. With exit status 0 all that is in it goes to the output
      directory, under the names that it has there; otherwise nothing of it does.
    - `{work}`: a scratch directory, which is removed however the command ends.
    - `{input}`, `{input[1]}` ...: the first of `inputs`, the second ...: the file itself, or its
      copy on a fast tier.
    - `{name}`: the name of the first input without folder and suffix, such as .nii.gz.
    - `{index}`, `{slot}`: the number of the task, and of the slot that runs it, from 0 on.

    `{{name}}` stands for `{name}` itself.
    """

    label: str
    "Name of the task in messages, logs and reports; every task has its own."
    argv: tuple[str, ...]
    "The command and its arguments, which no shell sees."
    inputs: tuple[str, ...] = ()
    "Paths of the files, or directories, that it reads; one that has changed is read anew."
    outputs: tuple[str, ...] = ()
    """Names below the output directory, with '/' between folders, that it makes for certain: it
    fails without them, and no two tasks may share one. It may make others, too.
    """
