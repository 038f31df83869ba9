"""Self-RAG's reflection tokens (Asai et al., 2023, arXiv 2310.11511, table 1): the model judges itself as it writes.

Having read a context it writes whether that is relevant, an answer, how far the context supports it, and how useful it
is: "[Relevant]Paris.[Fully supported][Utility:5]". Each judgement is one token of a group, and the probabilities of the
whole group at its place are what the critic `reflection` reads. A group is looked at where one of its tokens was
written first; the paper's program takes relevance at the first place, which is where a trained model writes it.
"""

import re
from collections.abc import Mapping

from tasks.generators.base import Generator, GeneratorUnavailable, Probe

RELEVANCE = ("[Relevant]", "[Irrelevant]")
SUPPORT = ("[Fully supported]", "[Partially supported]", "[No support / Contradictory]")
UTILITY = tuple(f"[Utility:{grade}]" for grade in range(1, 6))
RETRIEVAL = ("[Retrieval]", "[No Retrieval]")
OTHERS = ("[Continue to Use Evidence]", "<paragraph>", "</paragraph>")
"""Tokens that no probability is asked of, and that a model may lack."""

JUDGEMENTS = Probe((*RELEVANCE, *SUPPORT, *UTILITY), groups=(RELEVANCE, SUPPORT, UTILITY))
ON_DEMAND = Probe(RETRIEVAL)
_TOKENS = re.compile("|".join(map(re.escape, (*JUDGEMENTS.tokens, *RETRIEVAL, *OTHERS))))


def require(generator: Generator) -> None:
    """Raises GeneratorUnavailable for a generator whose model cannot have the tokens, or lacks one of them."""
    from tasks.models.language_model import LocalModel  # heavy

    local = getattr(generator, "local", None)
    if not isinstance(local, LocalModel):
        raise GeneratorUnavailable(
            f"generate.reflection: {type(generator).__name__} has no vocabulary to look reflection tokens up in; say "
            "--set generate.generator=transformers (or vllm)"
        )
    vocabulary = local.tokenizer.get_vocab()
    if missing := [token for token in (*JUDGEMENTS.tokens, *RETRIEVAL) if token not in vocabulary]:
        others = f" and {len(missing) - 1} others of its kind" if len(missing) > 1 else ""
        raise GeneratorUnavailable(
            f"generate.reflection: the vocabulary of {local.directory} lacks the token {missing[0]!r}{others}; take a "
            "model trained with Self-RAG's tokens, selfrag/selfrag_llama2_7b for example, or another critic"
        )


def freed(text: str) -> str:
    """An answer without reflection tokens."""
    return " ".join(_TOKENS.sub(" ", text).split())


def undecided(prompt: str) -> str:
    """A prompt without contexts, up to where the model says whether it wants some."""
    return prompt.removesuffix(RETRIEVAL[1])


def wants_contexts(probabilities: Mapping[str, float], threshold: float) -> bool:
    """Whether the probability of [Retrieval], against [No Retrieval], exceeds the threshold (section 3.3)."""
    yes, no = (probabilities.get(token, 0.0) for token in RETRIEVAL)
    return yes > threshold * (yes + no)
