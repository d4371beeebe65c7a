"""`python -m recollect.infra.backends.local_model_server --model FILE`: llama.cpp's HTTP server on loopback.

Prints one line of JSON, `{"port": …}`, when it is ready, and ends as soon as its standard input is closed: whoever
started it holds the other end, so it never outlives them, whatever ends them.
"""

import argparse
import json
import os
import signal
import sys
import threading
from typing import Any


def main() -> None:
    arguments = _arguments()
    # Ctrl-C in a terminal reaches every process there; who started this one decides when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_standard_input, daemon=True).start()
    server = _serve(arguments)
    port = int(server.listening_address.rsplit(":", 1)[1])
    sys.stdout.write(json.dumps({"port": port}) + "\n")
    sys.stdout.flush()
    threading.Event().wait()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--slots", type=int, default=1, help="requests served at the same time")
    parser.add_argument("--context", type=int, default=4096, help="tokens that one request may hold")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--cache-mb", type=int, help="memory for prompts that left their slot; unset: llama.cpp's own choice"
    )
    return parser.parse_args()


def _serve(arguments: argparse.Namespace) -> Any:
    """Everything that is not asked for is as llama.cpp has it."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = arguments.model
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # Any that is free.
    params.n_parallel = arguments.slots
    params.n_ctx = arguments.context * arguments.slots
    params.cpuparams.n_threads = arguments.threads
    params.cpuparams_batch.n_threads = arguments.threads
    params.endpoint_slots = params.endpoint_props = params.endpoint_metrics = True
    if arguments.cache_mb is not None:
        params.cache_ram_mib = arguments.cache_mb
    return xllamacpp.Server(params)


def _end_with_standard_input() -> None:
    while os.read(sys.stdin.fileno(), 1):
        continue
    os._exit(0)


if __name__ == "__main__":
    main()
