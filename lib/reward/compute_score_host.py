"""Answers reward questions with a function of the user's Python file; started by verlcpp-train.

usage: python3 -c TEXT PATH NAME REWARD_KWARGS, where PATH is a .py file (file://... too) or
pkg://package.module, and REWARD_KWARGS a JSON object. The protocol is in lib/reward/program.h.
"""

import asyncio
import importlib
import importlib.util
import inspect
import json
import math
import os
import sys
import threading
import traceback


def take_over_streams():
    """The protocol's two streams, out of the reach of what the user's code prints and reads."""
    questions = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)
    return questions, answers


def load_function(path, name):
    if path.startswith("pkg://"):
        module = importlib.import_module(path[len("pkg://") :].replace("/", "."))
    else:
        path = path[len("file://") :] if path.startswith("file://") else path
        sys.argv = [path]
        spec = importlib.util.spec_from_file_location("custom_reward_function", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    if not hasattr(module, name):
        names = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise AttributeError(f"there is no {name} in it; what it has: {', '.join(names) or 'nothing'}")
    return getattr(module, name)


def plain(value):
    """As JSON has it: NumPy's and PyTorch's values as numbers and lists, others as they print."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return repr(value)


def error_of(error):
    ours = error.__traceback__  # this file's own frame says nothing to the user
    lines = traceback.format_exception(type(error), error, ours.tb_next or ours)
    return {"error": f"{type(error).__name__}: {error}", "traceback": "".join(lines)}


class Host:
    def __init__(self, function, kwargs, questions, answers):
        self.function, self.kwargs = function, kwargs
        self.questions, self.answers = questions, answers

    def say(self, message):
        self.answers.write(json.dumps(message, allow_nan=False) + "\n")
        self.answers.flush()

    def arguments(self, question):
        names = ("data_source", "solution_str", "ground_truth", "extra_info")
        return {**{name: question[name] for name in names}, **self.kwargs}

    def serve(self):
        for line in self.questions:
            question = json.loads(line)
            try:
                answer = {"result": plain(self.function(**self.arguments(question)))}
            except (Exception, SystemExit) as error:
                answer = error_of(error)
            self.say({"id": question["id"], **answer})

    async def answer_one(self, question):
        try:
            answer = {"result": plain(await self.function(**self.arguments(question)))}
        except (Exception, SystemExit) as error:
            answer = error_of(error)
        self.say({"id": question["id"], **answer})

    async def serve_together(self):
        """Of an `async def`: all questions that have come are under way at the same time."""
        loop, queue, tasks = asyncio.get_running_loop(), asyncio.Queue(), set()

        def read():
            for line in self.questions:
                loop.call_soon_threadsafe(queue.put_nowait, line)
            loop.call_soon_threadsafe(queue.put_nowait, None)

        threading.Thread(target=read, daemon=True).start()
        while (line := await queue.get()) is not None:
            task = asyncio.create_task(self.answer_one(json.loads(line)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


def main():
    path, name, kwargs = sys.argv[1:4]
    host = Host(None, json.loads(kwargs), *take_over_streams())
    try:
        host.function = load_function(path, name)
    except (Exception, SystemExit) as error:
        host.say({"fatal": error_of(error)["error"], **error_of(error)})
        sys.exit(1)
    host.say({"ready": True})
    if inspect.iscoroutinefunction(host.function):
        asyncio.run(host.serve_together())
    else:
        host.serve()


if __name__ == "__main__":
    main()
