"""Runs command lines of the stock clients, one after another, for a test that talks to it.

Each line of standard input is {"command": "...", "cwd": "..."}; the answer is one line {"exit", "stdout", "stderr"}. Starting Python and
importing a client takes a second or more; so they are imported once, and each command runs in a fork of this process: with the
client's own code from its entry point to its exit status, and with nothing left over from the command before. One thing is not as
it is for a person: pauses between two polls or retries are a tenth as long.
"""

import importlib.metadata
import json
import os
import shlex
import sys
import tempfile
import time
import traceback

HASTE = 10


def entry_points():
    """The programs, by the names people type."""
    import ironicclient.shell
    import openstackclient.shell

    return {"baremetal": ironicclient.shell.main, "openstack": openstackclient.shell.main}


def preload():
    """Imports what commands import when they run."""
    for group in ("openstack.baremetal.v1", "openstack.cli.base", "openstack.cli.extension", "cliff.formatter.list",
                  "cliff.formatter.show"):
        for entry in importlib.metadata.entry_points(group=group):
            entry.load()


def run(main, argv):
    """The whole life of a client's process, after its imports."""
    import cliff.app

    sys.argv = argv
    # Programs take their name from the first argument, when they are imported.
    cliff.app.App.NAME = argv[0]
    pause = time.sleep
    time.sleep = lambda seconds: pause(seconds / HASTE)
    try:
        status = main(argv[1:])
    except SystemExit as ended:
        status = ended.code
    if isinstance(status, str):
        print(status, file=sys.stderr)
        status = 1
    return status or 0


def execute(programs, request):
    """Runs one command in a child of its own and waits for its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            status = 70
            try:
                os.chdir(request["cwd"])
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                argv = shlex.split(request["command"])
                status = run(programs[argv[0]], argv)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode())
    return {"exit": os.waitstatus_to_exitcode(ended), "stdout": texts[0], "stderr": texts[1]}


def serve():
    programs = entry_points()
    preload()
    for line in sys.stdin:
        print(json.dumps(execute(programs, json.loads(line))), flush=True)


if __name__ == "__main__":
    serve()
