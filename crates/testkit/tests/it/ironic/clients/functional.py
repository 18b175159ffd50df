"""Runs the functional tests of the bare metal part that openstacksdk ships, and prints one line of JSON: how each of them ended. Takes
the address of the API; the settings of the clouds they ask for are written into the current directory. Pauses between two polls are a
tenth as long as the tests ask for."""

import json
import os
import sys
import time
import unittest

HASTE = 10

CLOUD = """
  {name}:
    auth_type: none
    auth: {{endpoint: "{endpoint}"}}
    baremetal_endpoint_override: "{endpoint}"
    # What else the tests look for before they begin.
    has_compute: false
    has_image: false
"""

NAMES = ("devstack", "devstack-alt", "devstack-admin", "devstack-system-admin")


class Endings(unittest.TestResult):
    """Keeps how each test ended."""

    def __init__(self):
        super().__init__()
        self.all = {}

    def note(self, test, ending):
        name = test.id().removeprefix("openstack.tests.functional.baremetal.v1.")
        # A test that fails twice, in itself and in its clean-up, failed first.
        self.all.setdefault(name, ending)

    def addSuccess(self, test, details=None):
        self.note(test, "ok")

    def addSkip(self, test, reason=None, details=None):
        self.note(test, "skipped: " + (reason or details["reason"].as_text()).strip())

    def addError(self, test, err=None, details=None):
        self.note(test, "failed: " + last_line(err, details))

    addFailure = addError


def last_line(err, details):
    """What was raised, in one line."""
    if err is not None:
        return f"{err[0].__name__}: {err[1]}".splitlines()[0]
    text = next((content.as_text() for name, content in details.items() if name.startswith("traceback")), "")
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def main(endpoint):
    with open("clouds.yaml", "w") as settings:
        settings.write("clouds:" + "".join(CLOUD.format(name=name, endpoint=endpoint) for name in NAMES))
    for name in [name for name in os.environ if name.startswith("OS_")]:
        del os.environ[name]
    os.environ["OS_CLIENT_CONFIG_FILE"] = os.path.abspath("clouds.yaml")
    pause = time.sleep
    time.sleep = lambda seconds: pause(seconds / HASTE)

    import openstack.tests.functional.baremetal.v1 as package

    directory = os.path.dirname(package.__file__)
    tests = unittest.defaultTestLoader.discover(directory, top_level_dir=os.path.join(directory, *[os.pardir] * 5))
    endings = Endings()
    tests.run(endings)
    print(json.dumps(endings.all))


if __name__ == "__main__":
    main(sys.argv[1])
