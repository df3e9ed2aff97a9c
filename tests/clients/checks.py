# Runs the checks of a Python client's program and says of each, a line of JSON, what came of it.
import json
import traceback


def run(checks):
    """The exit code: 1 when a check failed."""
    failed = False
    for check in checks:
        failure = None
        try:
            check()
        except Exception:
            failure = traceback.format_exc()
            failed = True
        print(json.dumps({"name": check.__name__.replace("_", " "), "failure": failure}), flush=True)
    return 1 if failed else 0
