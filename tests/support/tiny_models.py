"""Models of real architectures with two small random layers, saved as their publishers save them."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import ByteLevelBPETokenizer
from tokenizers.processors import TemplateProcessing
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    DPRConfig,
    DPRContextEncoder,
    DPRQuestionEncoder,
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2Model,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MistralModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2Model,
    RobertaConfig,
    RobertaForSequenceClassification,
    RobertaModel,
    RobertaTokenizerFast,
    T5Config,
    T5EncoderModel,
    T5ForConditionalGeneration,
    T5ForSequenceClassification,
    XLMRobertaConfig,
    XLMRobertaForTokenClassification,
)

from vitalfew.tasks.encoders.transformer import MiniLM

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
SPREAD = {"initializer_range": 0.3}  # as initialised for training, every text would have nearly the same vector
ENDS = {"bos_token_id": 1, "eos_token_id": 3, "pad_token_id": 0}
T5_SIZES = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "vocab_size": 400}
BART_SIZES = {"layers": 2, "attention_heads": 2, "ffn_dim": 64}
BPE_TEXTS = ["The river rises in the hills and runs for 120 km to the sea; its mill still stands. Who founded it?"] * 4
END = "<|endoftext|>"
CHAT = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def _saved(kind: Any, config: Any, directory: Path, seed: int | None = None, **options: Any) -> Path:
    """Save a model of random weights, those of a seed if one is given."""
    if seed is not None:
        torch.manual_seed(seed)
    kind(config, **options).save_pretrained(directory)
    return directory


def _added(directory: Path, weights: dict[str, torch.Tensor], **config: Any) -> Path:
    """Add weights and settings to a saved model."""
    file = directory / "model.safetensors"
    save_file(load_file(file) | weights, file, {"format": "pt"})
    return _stated(directory / "config.json", **config)


def _stated(file: Path, **more: Any) -> Path:
    """Add to a file of settings. Returns its folder."""
    file.write_text(json.dumps(json.loads(file.read_text()) | more))
    return file.parent


def bert(directory: Path, positions: int = 128) -> Path:
    """Like Contriever: a plain Hugging Face BERT without pooler, with MiniLM's vocabulary."""
    config = BertConfig(**SIZES, **SPREAD, max_position_embeddings=positions)
    _saved(BertModel, config, directory, 1, add_pooling_layer=False)
    return _with_bert_tokenizer(directory)


def dpr_pair(directory: Path) -> tuple[Path, Path]:
    """DPR's context and question encoder, with projections."""
    config = DPRConfig(**SIZES, **SPREAD, max_position_embeddings=128, projection_dim=16)
    context = _saved(DPRContextEncoder, config, directory / "context", 2)
    question = _saved(DPRQuestionEncoder, config, directory / "question", 3)
    return _with_bert_tokenizer(context), _with_bert_tokenizer(question)


ROBERTA_SIZES = {**SIZES, **SPREAD, "vocab_size": 400, "max_position_embeddings": 66}  # 64 positions can be used


def roberta(directory: Path) -> Path:
    _saved(RobertaModel, RobertaConfig(**ROBERTA_SIZES), directory, 4)
    _bpe(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]).save_model(str(directory))
    vocabulary, merges = directory / "vocab.json", directory / "merges.txt"
    RobertaTokenizerFast(vocab=str(vocabulary), merges=str(merges), model_max_length=64).save_pretrained(directory)
    return directory


def cross_encoder(directory: Path, family: str = "bert", labels: int = 1) -> Path:
    """A sequence classifier that ranks, like ms-marco-MiniLM (bert), bge-reranker (roberta) and others (deberta)."""
    if family == "roberta":
        config = RobertaConfig(**ROBERTA_SIZES, num_labels=labels)
        return _saved(RobertaForSequenceClassification, config, roberta(directory))
    if family == "deberta":
        _saved(DebertaV2ForSequenceClassification, _deberta(num_labels=labels), directory, 12)
    else:
        bert_config = BertConfig(**SIZES, **SPREAD, max_position_embeddings=128, num_labels=labels)
        _saved(BertForSequenceClassification, bert_config, directory, 12)
    return _with_bert_tokenizer(directory)


def token_classifier(directory: Path, family: str = "xlm-roberta", labels: int = 2) -> Path:
    """Like LLMLingua-2's checkpoints: XLM-RoBERTa's or BERT's states with a head for every token."""
    if family == "bert":
        bert_config = BertConfig(**SIZES, **SPREAD, max_position_embeddings=64, num_labels=labels)
        return _with_bert_tokenizer(_saved(BertForTokenClassification, bert_config, directory, 13))
    config = XLMRobertaConfig(**ROBERTA_SIZES, num_labels=labels)
    return _saved(XLMRobertaForTokenClassification, config, roberta(directory))


def provence(directory: Path) -> Path:
    """The layout of naver/provence-reranker-debertav3-v1: a ranking and a token head, and code that nobody runs."""
    cross_encoder(directory, "deberta", labels=2)
    (directory / "modeling_provence.py").write_text("raise SystemExit('code of a checkpoint was run')\n")
    head = {"token_classifier.weight": torch.randn(2, 32), "token_classifier.bias": torch.zeros(2)}
    own = {"AutoConfig": "modeling_provence.ProvenceConfig", "AutoModel": "modeling_provence.Provence"}
    return _added(directory, head, architectures=["Provence"], model_type="Provence", auto_map=own)


def _deberta(**settings: Any) -> DebertaV2Config:
    """DeBERTa-v3's way: relative positions alone, no token types; with MiniLM's vocabulary."""
    return DebertaV2Config(
        **SIZES, **SPREAD, vocab_size=30522, max_position_embeddings=128, type_vocab_size=0, relative_attention=True,
        position_buckets=16, norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"],
        position_biased_input=False, pooler_hidden_size=32, **settings,
    )  # fmt: skip


def qwen(directory: Path) -> Path:
    """A decoder whose tokenizer puts an end-of-text token after every text, as embedding models' do."""
    sizes = {"num_key_value_heads": 1, "max_position_embeddings": 128}
    config = Qwen2Config(**SIZES, **SPREAD, **sizes, vocab_size=400, pad_token_id=0)
    _saved(Qwen2Model, config, directory, 5)
    return _with_bpe(directory, [END], f"$A {END}", pad_token=END, eos_token=END, model_max_length=128)


def gpt2(directory: Path) -> Path:
    config = GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=128, vocab_size=400, **SPREAD)
    _saved(GPT2Model, config, directory, 7)
    return _with_bpe(directory, [END], bos_token=END, eos_token=END, model_max_length=128)


def t5(directory: Path) -> Path:
    """The encoder of an encoder-decoder, saved without the decoder, as sentence-t5 is."""
    _saved(T5EncoderModel, T5Config(**T5_SIZES), directory, 6)
    special = ["<pad>", "</s>", "<unk>"]
    return _with_bpe(directory, special, "$A </s>", pad_token="<pad>", eos_token="</s>")


def t5_generator(directory: Path) -> Path:
    """A whole T5: relative positions, so that no prompt is too long for it."""
    config = T5Config(**T5_SIZES, decoder_start_token_id=0, initializer_factor=3.0, tie_word_embeddings=False)
    return _saved(T5ForConditionalGeneration, config, t5(directory))


def t5_evaluator(directory: Path) -> Path:
    """The layout of CRAG's retrieval evaluator: a T5 with a classification head of one logit."""
    config = T5Config(**T5_SIZES, decoder_start_token_id=0, initializer_factor=3.0, num_labels=1)
    return _saved(T5ForSequenceClassification, config, t5(directory))


def t5_that_says(directory: Path, text: str) -> Path:
    """A T5 that was trained until it answers whatever it is given with `text`."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(t5(directory))
    torch.manual_seed(10)
    sizes = {**T5_SIZES, "d_model": 64, "d_kv": 32, "d_ff": 128, "num_layers": 1}
    model = T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0, dropout_rate=0.0))
    labels = tokenizer([text] * 8, return_tensors="pt").input_ids
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(300):
        loss = model(input_ids=torch.randint(2, 400, (8, 12)), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 0.005:
            break
    model.save_pretrained(directory)
    return directory


def bart(directory: Path) -> Path:
    """Learned positions, 64 of them, and a generation_config that asks for beams and against repetition."""
    sides = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in BART_SIZES.items()}
    config = BartConfig(
        **sides, d_model=32, vocab_size=400, max_position_embeddings=64, init_std=0.3, pad_token_id=0, eos_token_id=1,
        bos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=1,
    )  # fmt: skip
    t5(directory)  # for its tokenizer
    model = BartForConditionalGeneration(config)
    model.generation_config.update(num_beams=4, no_repeat_ngram_size=2, repetition_penalty=5.0)
    model.save_pretrained(directory)
    return directory


def llama(directory: Path, chat: bool = True, positions: int = 256, tokens: Sequence[str] = ()) -> Path:
    """A causal model with a tokenizer, with a chat template or without (then a text begins with <s>), and with further
    special tokens, which it writes more often than others."""
    torch.manual_seed(7)
    # Heads of 32 numbers: the fewest that vLLM's attention on a CPU takes.
    sizes = {**SIZES, "hidden_size": 64, "num_key_value_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **SPREAD, **ENDS, vocab_size=400, max_position_embeddings=positions))
    with torch.no_grad():
        model.lm_head.weight[6 : 6 + len(tokens)] *= 1.5
    model.save_pretrained(directory)
    return _with_llama_tokenizer(directory, CHAT if chat else None, tokens)


def gemma(directory: Path, tokens: Sequence[str] = ()) -> Path:
    """As `llama`, of Gemma's architecture: EXIT's base."""
    sizes = {**SIZES, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 256}
    _saved(GemmaForCausalLM, GemmaConfig(**sizes, **SPREAD, **ENDS, vocab_size=400), directory, 14)
    return _with_llama_tokenizer(directory, CHAT, tokens)


def xrag(directory: Path) -> Path:
    """The layout of Hannibal046/xrag-7b: a Mistral with the placeholder in its vocabulary and the projector, of vectors
    of 32 numbers, among its weights."""
    _saved(MistralForCausalLM, _mistral(hidden_size=64), directory, 14)
    _with_llama_tokenizer(directory, CHAT, ("<xRAG>",))
    weights = {}
    for layer, given in ((0, 32), (2, 64)):
        weights[f"projector.projector.{layer}.weight"] = torch.randn(64, given) / given**0.5
        weights[f"projector.projector.{layer}.bias"] = torch.randn(64)
    return _added(directory, weights, architectures=["XMistralForCausalLM"], retriever_hidden_size=32)


def mistral_embedder(directory: Path) -> Path:
    """Like SFR-Embedding-Mistral: vectors of length 1 for search, and a tokenizer whose settings ask for an end of text
    that its tokenizer.json does not add."""
    _saved(MistralModel, _mistral(), directory, 15)
    _stated(_with_llama_tokenizer(directory, None) / "tokenizer_config.json", add_eos_token=True)
    kinds = ("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds]
    (directory / "modules.json").write_text(json.dumps(modules))
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_lasttoken": True}))
    return directory


def _mistral(**config: Any) -> MistralConfig:
    sizes = {**SIZES, "num_key_value_heads": 1, "max_position_embeddings": 256, "sliding_window": None, **config}
    return MistralConfig(**sizes, **SPREAD, **ENDS, vocab_size=400)


def lora(directory: Path, base: Path, **config: Any) -> Path:
    """A LoRA adapter (of rank 4) of two projections of each layer of a causal model, as PEFT saves it."""
    torch.manual_seed(11)
    directory.mkdir(parents=True, exist_ok=True)
    weights = {}
    for name, weight in load_file(base / "model.safetensors").items():
        if name.endswith(("q_proj.weight", "v_proj.weight")):
            stem = f"base_model.model.{name.removesuffix('.weight')}"
            weights[f"{stem}.lora_A.weight"] = torch.randn(4, weight.shape[1])
            weights[f"{stem}.lora_B.weight"] = torch.randn(weight.shape[0], 4)
    save_file(weights, directory / "adapter_model.safetensors")
    settings = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 2, "lora_dropout": 0.05, "bias": "none",
        "target_modules": ["q_proj", "v_proj"], "base_model_name_or_path": "someone/tiny-llama", **config,
    }  # fmt: skip
    (directory / "adapter_config.json").write_text(json.dumps(settings))
    return directory


def merged(directory: Path, base: Path, adapter: Path) -> Path:
    """A copy of `base` with W + alpha / r * B A for its weights W."""
    shutil.copytree(base, directory)
    weights, delta = load_file(base / "model.safetensors"), load_file(adapter / "adapter_model.safetensors")
    settings = json.loads((adapter / "adapter_config.json").read_text())
    for name in weights:
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        if f"{stem}.lora_A.weight" in delta:
            scale = settings["lora_alpha"] / settings["r"]
            weights[name] += scale * delta[f"{stem}.lora_B.weight"] @ delta[f"{stem}.lora_A.weight"]
    save_file(weights, directory / "model.safetensors", {"format": "pt"})
    return directory


def sentence_transformer(
    base: Path, directory: Path, *layers: Any, pooling: str = "mean", max_seq_length: int | None = None, **options: Any
) -> Path:
    """`base` in sentence-transformers' layout: pooling and `layers` after it, saved by that library."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    transformer = Transformer(str(base), max_seq_length=max_seq_length)
    modules = [transformer, Pooling(transformer.get_embedding_dimension(), pooling), *layers]
    SentenceTransformer(modules=modules, device="cpu", **options).save(str(directory), create_model_card=False)
    return directory


def pickled(directory: Path) -> Path:
    """A copy of a model with its weights as pytorch_model.bin, as older checkpoints have them."""
    copy = directory.with_name(f"{directory.name}-pickled")
    shutil.copytree(directory, copy)
    weights = copy / "model.safetensors"
    torch.save(load_file(weights), copy / "pytorch_model.bin")
    weights.unlink()
    return copy


def _with_bert_tokenizer(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    source = MiniLM(MiniLM.Options()).model_directory()
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        shutil.copy(source / name, directory / name)
    return directory


def _with_llama_tokenizer(directory: Path, template: str | None, tokens: Sequence[str] = ()) -> Path:
    special = ["<pad>", "<s>", "<unk>", "<|end|>", "<|user|>", "<|assistant|>", *tokens]
    ends = {"bos_token": "<s>", "eos_token": "<|end|>", "pad_token": "<pad>"}
    return _with_bpe(directory, special, "<s> $A", template, **ends)


def _with_bpe(
    directory: Path, special: Sequence[str], form: str = "", template: str | None = None, **settings: Any
) -> Path:
    """With a tokenizer that has these special tokens. `form`: of a text, such as "<s> $A"."""
    bpe = _bpe(special)._tokenizer
    if form:
        places = [(word, special.index(word)) for word in form.split() if word != "$A"]
        bpe.post_processor = TemplateProcessing(single=form, special_tokens=places)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, **settings)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(directory)
    return directory


def _bpe(special: Sequence[str]) -> ByteLevelBPETokenizer:
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(BPE_TEXTS, vocab_size=400, min_frequency=1, special_tokens=list(special))
    return tokenizer
