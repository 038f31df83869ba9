import subprocess
import sys

import pytest
import torch

from vitalfew.tasks.models import processor
from vitalfew.tasks.models.device import DTYPES, choose_dtype, precision_name, sees_gpu

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
    assert sees_gpu() == torch.cuda.is_available()
    assert processor.features() - {"amd"} == processor._from_torch() & processor.KNOWN
    for setting in ("auto", "bf16", "fp16", "fp32"):
        name = precision_name(setting, "cpu")
        assert str(choose_dtype(setting, torch.device("cpu"))) == f"torch.{DTYPES[name]}"


@pytest.mark.skipif(sys.platform != "linux" or torch.cuda.is_available(), reason="PyTorch is asked here")
def test_a_processor_is_described_without_pytorch() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("False")
    assert str(sorted(processor.features())) in done.stdout
