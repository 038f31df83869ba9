import subprocess
import sys
from pathlib import Path

import pytest
import torch

from vitalfew.tasks.models import device, processor
from vitalfew.tasks.models.device import DTYPES, device_name, dtype_of, precision_name, sees_gpu

WITHOUT_TORCH = """
import sys
from vitalfew.configs.options import Batching
from vitalfew.tasks.models import processor
from vitalfew.tasks.models.device import OnDevice

class Method(OnDevice):
    version = "1"

print(Method(Batching()).identity(), sorted(processor.features()), "torch" in sys.modules)
"""


def test_the_answers_are_those_of_pytorch() -> None:
    capabilities = torch.cpu.get_capabilities()
    assert sees_gpu() == torch.cuda.is_available()
    assert processor.features() - {"amd"} == processor._from_torch() & processor.KNOWN
    native = any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    pays = native and (capabilities.get("architecture") != "x86_64" or bool(processor.features() & {"amx_bf16", "amd"}))
    assert precision_name("auto", "cpu") == ("bf16" if pays else "fp32")
    for setting in ("auto", "bf16", "fp16", "fp32"):
        name = precision_name(setting, "cpu")
        assert str(dtype_of(name)) == f"torch.{DTYPES[name]}"


@pytest.mark.skipif(sys.platform != "linux" or torch.cuda.is_available(), reason="PyTorch is asked here")
def test_a_processor_is_described_without_pytorch() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("False")
    assert str(sorted(processor.features())) in done.stdout


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_bf16\n\nflags : amx_bf16\n", "avx2 avx512f avx512_bf16"),
        ("vendor_id\t: AuthenticAMD\nflags\t\t: avx512_bf16\n", "avx512_bf16 amd"),
        ("vendor_id\t: GenuineIntel\nflags\t\t: avx512_bf16\n", "avx512_bf16"),
        ("processor\t: 0\nFeatures\t: fp asimd i8mm bf16\n", "i8mm bf16"),
        ("flags\t:\n", ""),
    ],
)
def test_linux_lists_the_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, known: str) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(processor, "_LISTED", tmp_path / "cpuinfo")
    assert processor.features.__wrapped__() == frozenset(known.split())


def test_pytorch_is_asked_where_the_system_lists_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_LISTED", tmp_path / "nothing")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_f": True, "avx2": False, "cpu_name": "Some"})
    assert processor.features.__wrapped__() == {"avx512f"}


def test_pytorch_is_asked_where_a_gpu_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(device, "SIGNS", ("/nothing*",))
    monkeypatch.setattr(device.sys, "platform", "linux")
    assert device_name("auto") == "cpu"
    assert device_name("cuda") == "cuda"
    monkeypatch.setattr(device, "SIGNS", ("/nothing*", "/dev*"))
    assert device_name("auto") == "cuda"
