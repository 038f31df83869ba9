"""The load of benchmarks/serve.py: clients of Locust, each of which asks one question after the other.

    python -m benchmarks.serve_load ADDRESS PATH --clients N < questions.json

Prints a line of JSON: [seconds since the epoch when it was sent, milliseconds, 1 if it was answered] of every request.
It is a process of its own because Locust replaces Python's sockets and threads by gevent's.
"""

from gevent import monkey

monkey.patch_all()

import argparse  # noqa: E402  # all of this must see gevent's threads
import json  # noqa: E402
import random  # noqa: E402
import sys  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from typing import Any  # noqa: E402

from locust import FastHttpUser, task  # noqa: E402
from locust.env import Environment  # noqa: E402
from locust.exception import StopUser  # noqa: E402


class Client(FastHttpUser):
    """Asks until there is no question left."""

    path = ""
    questions: Iterator[str] = iter(())
    pause = 0.0

    def wait_time(self) -> float:
        return random.uniform(0, 2 * self.pause)

    @task
    def ask(self) -> None:
        question = next(self.questions, None)
        if question is None:
            raise StopUser
        self.client.post(self.path, json={"question": question})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("path")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.0, help="mean seconds between an answer and the next question")
    given = parser.parse_args()
    questions = json.load(sys.stdin)
    Client.path, Client.pause = given.path, given.pause
    Client.questions = iter(questions)

    seen: list[tuple[float, float, int]] = []
    environment = Environment(user_classes=[Client], host=given.address)

    def note(start_time: float, response_time: float, exception: Any, **more: Any) -> None:
        seen.append((start_time, response_time, int(exception is None)))

    environment.events.request.add_listener(note)
    runner = environment.create_local_runner()
    runner.start(given.clients, spawn_rate=given.clients)
    runner.spawning_greenlet.join()
    for greenlet in [*runner.user_greenlets]:
        greenlet.join()
    runner.quit()
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main()
