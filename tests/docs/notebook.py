"""Run blocks of Python in one namespace, one at a time: a program that reads code as JSON lines and answers with what it
printed. A process of its own, so that threads, modules and the working directory of a page stay with the page."""

import io
import json
import linecache
import sys
import traceback
import types
from contextlib import redirect_stdout


def main(name: str) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    module = sys.modules[name] = types.ModuleType(name)
    sys.path.insert(0, "")
    for line in sys.stdin:
        asked = json.loads(line)
        for changed in asked["changed"]:
            sys.modules.pop(changed, None)
        print(json.dumps(run(asked["code"], asked["where"], module)), file=answers, flush=True)


def run(code: str, where: str, module: types.ModuleType) -> dict[str, str]:
    printed, trace = io.StringIO(), ""
    linecache.cache[where] = (len(code), None, code.splitlines(keepends=True), where)
    with redirect_stdout(printed):
        try:
            exec(compile(code, where, "exec"), module.__dict__)
        except Exception as error:  # noqa: BLE001 - the page may show it
            print(f"{type(error).__name__}: {error}")
            trace = traceback.format_exc()
    return {"printed": printed.getvalue(), "trace": trace}


if __name__ == "__main__":
    main(sys.argv[1])
