"""Typed errors with the exit codes of the whole project (core/error.h), and the guard around every main."""
import errno
import os
import sys
import traceback


class PlotError(Exception):
    """Base: `exit_status` is the process exit code, the text a complete sentence: what, where, how to mend."""

    exit_status = 6


class UsageError(PlotError):
    exit_status = 2


class EnvironmentFailure(PlotError):
    exit_status = 3


class CorruptData(PlotError):
    exit_status = 6


class BrokenFigure(PlotError):
    """A file of plots/figures that is no working figure: a defect of the program."""

    exit_status = 6


def require_asked_for(folder, name, command):
    """A folder that was asked for by name holds the file `name`, which `command` writes there: what is shown without it looks like a run that had none. What is looked for by default may be absent (`folder` empty)."""
    if folder and not os.path.exists(os.path.join(folder, name)):
        raise EnvironmentFailure(f"{folder} holds no {name}; `{command} --out {folder}` writes one")


def from_os_error(error, doing):
    """The typed error of an OSError: a full disk is a run-time failure (6), the rest an environment error (3)."""
    kind = CorruptData if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO) else EnvironmentFailure
    kind_text = "free some space and repeat" if kind is CorruptData else "check the path and its permissions"
    return kind(f"{doing}: {error.strerror or error} ({error.filename}); {kind_text}")


def guarded_main(program, run):
    """Runs `run()`; any escape becomes one line on stderr and the documented exit code."""
    try:
        return run() or 0
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except PlotError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_status
    except OSError as error:
        error = from_os_error(error, "input or output failed")
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_status
    except Exception as error:  # a bug of ours: keep the trace, it is what a report needs
        traceback.print_exc()
        print(f"{program}: internal error: {error}; please report it with the trace above", file=sys.stderr)
        return 6
