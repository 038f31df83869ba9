"""Adapters of the library for other frameworks: `langchain`, `llama_index`, `haystack`.

Each module has a retriever over a `vitalfew.Index` and a refiner of retrieved passages over `vitalfew.refine`. It needs
its framework, which the extra `langchain`, `llama-index` or `haystack` brings.
"""
