"""The same work as a Ray Data script, for benchmarks/faults.py: vectors of passages, and answers of a server.

    python -m benchmarks.faults_ray index FOLDER_OF_JSONL OUT
    python -m benchmarks.faults_ray answer FOLDER_OF_JSONL OUT --url URL [--processor]

Written as Ray's pages "Batch inference" and "Working with LLMs" write it, with what Ray 2.60 has against faults:

- `CheckpointConfig` (beta): a run that is started again leaves out rows whose output was written.
- `preserve_order`: the same input gives the same order of rows.
- `max_errored_blocks` for the passages: a block that fails is dropped, with a message, and the run goes on.
- `max_retries` of `HttpRequestProcessorConfig`, or the retries of OpenAI's own client in an actor.
"""

import argparse
from pathlib import Path
from typing import Any

from benchmarks.common import count_rows

MODEL = "test"


class Encode:
    """An actor that holds the model, as in Ray's example of sentence embeddings."""

    def __init__(self) -> None:
        from sentence_transformers import SentenceTransformer

        from vitalfew.tasks.models.files import minilm_directory

        self.model = SentenceTransformer(str(minilm_directory()), device="cpu")

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        vectors = self.model.encode(batch["contents"].tolist(), normalize_embeddings=True)
        count_rows(len(vectors))
        return {"id": batch["id"], "vector": vectors}


class Ask:
    """An actor that asks the server one question after another."""

    def __init__(self, url: str) -> None:
        from openai import OpenAI

        self.client = OpenAI(base_url=url, api_key="none", max_retries=5)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        answers = [self.ask(question) for question in batch["question"]]
        return {"id": batch["id"], "answer": answers}

    def ask(self, question: str) -> str | None:
        messages: Any = [{"role": "user", "content": question}]
        answer = self.client.chat.completions.create(model=MODEL, messages=messages)
        return answer.choices[0].message.content


def processor(url: str) -> Any:
    """Ray's own stage for requests."""
    from ray.data.llm import HttpRequestProcessorConfig, build_processor

    return build_processor(
        HttpRequestProcessorConfig(url=f"{url}/chat/completions", concurrency=2, max_retries=5),
        preprocess=lambda row: {
            "id": row["id"],
            "payload": {"model": MODEL, "messages": [{"role": "user", "content": row["question"]}]},
        },
        postprocess=lambda row: {
            "id": row["id"],
            "answer": row["http_response"]["choices"][0]["message"]["content"],
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=["index", "answer"])
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--url", help="of the server, with /v1")
    parser.add_argument("--processor", action="store_true", help="ask by HttpRequestProcessorConfig")
    work(parser.parse_args())


def work(given: argparse.Namespace) -> None:
    import ray  # not for --help
    from ray.data import ActorPoolStrategy, DataContext
    from ray.data.checkpoint import CheckpointConfig

    ray.init(num_cpus=4, include_dashboard=False)
    context = DataContext.get_current()  # a data set keeps the context of the moment when it is made
    context.checkpoint_config = CheckpointConfig(
        id_column="id", checkpoint_path=f"{given.out}.checkpoint", delete_checkpoint_on_success=False
    )
    context.execution_options.preserve_order = True
    if given.work == "index":
        context.max_errored_blocks = -1
    files = len(list(given.source.iterdir()))
    rows = ray.data.read_json(str(given.source), override_num_blocks=files)  # so that a bad row costs one file
    if given.work == "index":
        made = rows.map_batches(Encode, compute=ActorPoolStrategy(size=1), batch_size=64)
    elif given.processor:
        made = processor(given.url)(rows)
    else:
        pool = ActorPoolStrategy(size=2)
        made = rows.map_batches(Ask, fn_constructor_args=(given.url,), compute=pool, batch_size=16)
    made.write_parquet(str(given.out))


if __name__ == "__main__":
    main()
