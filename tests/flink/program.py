"""A PyFlink program, told what to do by lines of JSON on standard input; it answers each with one.

It runs in PyFlink's own environment, and knows nothing of the shim.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any

from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, StreamTableEnvironment

PR_SET_PDEATHSIG = 1


def main() -> None:
    # Whoever has started this one may be killed while it is in a call, and sees nothing of that.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # Whatever else prints must not get among the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    answers.write(json.dumps({"ready": True}) + "\n")
    for line in sys.stdin:
        said = json.loads(line)
        try:
            answer = {"answer": CALLS[said["mode"]](said)}
        except Exception as error:  # noqa: BLE001 - whoever asked decides what it means
            answer = {"error": type(error).__name__, "message": str(error)}
        answers.write(json.dumps(answer) + "\n")


def told(settings: EnvironmentSettings, said: dict[str, Any]) -> Any:
    # One for each call: what was set for one job does not hold for the next. To Flink 1.17 it is too late
    # later, and any other environment runs jobs here.
    flink = get_gateway().jvm.org.apache.flink
    own = flink.streaming.api.environment.StreamExecutionEnvironment(
        flink.configuration.Configuration.fromMap(said["settings"])
    )
    environment = StreamTableEnvironment.create(StreamExecutionEnvironment(own), settings)
    *others, last = said["statements"]
    for statement in others:
        environment.execute_sql(statement)
    return environment.execute_sql(last)


def rows(said: dict[str, Any]) -> list[list[Any]]:
    with told(EnvironmentSettings.in_batch_mode(), said).collect() as found:
        return [list(row) for row in found]


def job(said: dict[str, Any]) -> str:
    return str(told(EnvironmentSettings.in_streaming_mode(), said).get_job_client().get_job_id())


def bounded(said: dict[str, Any]) -> str:
    return str(told(EnvironmentSettings.in_batch_mode(), said).get_job_client().get_job_id())


CALLS = {"batch": rows, "streaming": job, "bounded": bounded}

if __name__ == "__main__":
    main()
