"""Datasets of the Hugging Face hub, or of its layout in a local folder, through the `datasets` library.

Deviations from `datasets.load_dataset`: nothing but text, JSON, CSV, Parquet and Arrow files is read, as other readers
of the library may unpickle what they find; code that comes with a dataset is never run (the library itself refuses it).
"""

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from tasks.datasets.arrow import BATCH_ROWS, rows_of
from tasks.datasets.base import DatasetOptions, InputError, Record, Reject
from tasks.datasets.columns import TableOptions, present_columns
from tasks.datasets.files import FileDataset, check_source
from tasks.datasets.rows import records_of

_READERS = {"arrow", "cache", "csv", "json", "parquet", "text"}
_SAVED, _SAVED_SPLITS = "state.json", "dataset_dict.json"


class HuggingFaceOptions(TableOptions):
    """Which part of the dataset is read, and which columns hold what."""

    split: str = Field(default="train", min_length=1, description="split of the dataset, or several: `train+test`")
    config: str | None = Field(
        default=None, min_length=1, description="configuration (subset) of the dataset, where it has several"
    )
    revision: str | None = Field(
        default=None, min_length=1, description="branch, tag or commit on the hub; if not given, its latest commit"
    )


class HuggingFace(FileDataset):
    """Passages, or questions, of a dataset on the Hugging Face hub, or of a folder that is laid out like one.

    `NAME` or `OWNER/NAME` on the hub, which is streamed and not downloaded as a whole; or a folder with data files
    (Parquet, JSON lines, CSV, text), or one that `save_to_disk` wrote. Columns are mapped as those of parquet. Needs
    `pip install 'vitalfew[huggingface]'`. The offset is the row's number.
    """

    example: ClassVar[str] = "huggingface:rajpurkar/squad?split=validation&question=question&answers=answers.text"
    takes_name: ClassVar[bool] = True
    Options: ClassVar[type[DatasetOptions]] = HuggingFaceOptions
    options: HuggingFaceOptions

    def files(self) -> list[Path]:
        """The files of a local folder; of a dataset on the hub none, as its commit stands for them."""
        if not self._is_local:
            return []
        source = self.source()
        if self._is_saved:
            folder = source if (source / _SAVED).exists() else source / self.options.split
            saved = [Path(each["filename"]) for each in self._dataset.cache_files]
            return [*saved, *(path for name in (_SAVED, "dataset_info.json") if (path := folder / name).exists())]
        splits = self.options.split.split("+")
        data_files = self._builder.config.data_files or {}
        found = sorted(Path(path) for split, paths in data_files.items() for path in paths if str(split) in splits)
        card = source / "README.md"  # may say which files and columns there are
        return [*found, card] if card.exists() else found

    def identity(self) -> dict[str, Any]:
        return {} if self._is_local else {"commit": self._builder.hash}

    def records(self) -> Iterator[tuple[int, Record]]:
        return records_of(enumerate(self._rows(), start=1), self.options.records)

    def _rows(self) -> Iterator[dict[str, Any] | Reject]:
        """The rows of the split, a batch in memory at a time. Raises InputError."""
        position = 0
        dataset = self._dataset
        if dataset.column_names is not None:
            dataset = dataset.select_columns(present_columns(self.options, dataset.column_names, self.source()))
        try:
            for batch in dataset.with_format("arrow").iter(batch_size=BATCH_ROWS):
                position += batch.num_rows
                yield from rows_of(batch)
        except Exception as error:  # each of the library's readers has errors of its own
            raise InputError(f"{self.source()}: broken after row {position}: {_shown(error)}") from error

    @property
    def _is_local(self) -> bool:
        return os.path.exists(self.source())

    @property
    def _is_saved(self) -> bool:
        """Whether it is a folder that `save_to_disk` wrote."""
        return any((self.source() / name).is_file() for name in (_SAVED, _SAVED_SPLITS))

    @cached_property
    def _builder(self) -> Any:
        """The library's description of the dataset: its files, and its commit on the hub. Raises InputError."""
        library = _library()
        source = self.source()
        if self._is_local and not os.path.isdir(source):
            raise InputError(f"{source} is a file: name the folder it is in, or use the format of the file")
        if not self._is_local and (source.is_absolute() or len(source.parts) > 2 or source.parts[0] in (".", "..")):
            check_source(source)  # no name on the hub: says what is amiss with the path
        if not self._is_local and str(source) in library.packaged_modules._PACKAGED_DATASETS_MODULES:
            # The library would look for files all over the working directory.
            raise InputError(f"{source} is a reader of the library and no dataset: name a dataset or a folder")
        try:
            builder = library.load_dataset_builder(
                str(self.source()), name=self.options.config, revision=self.options.revision
            )
        except Exception as error:  # of the library, of its HTTP client, of its cache
            raise InputError(f"{self.source()}: {_shown(error)}. {self._remedy()}") from error
        readers = {name[2] for each in type(builder).__mro__ if len(name := each.__module__.split(".")) > 3}
        if not readers & _READERS:
            raise InputError(f"{self.source()} is {', '.join(sorted(readers))}: only {', '.join(_READERS)} are read")
        return builder

    def _remedy(self) -> str:
        if self._is_local:
            return "Name a folder with files of Parquet, JSON lines, CSV or text, or one that save_to_disk wrote"
        return (
            f"{str(self.source())!r} is no folder here, so it was looked up on the Hugging Face hub. Check the name "
            "and the network; without one, `hf download --repo-type dataset NAME --local-dir FOLDER` it elsewhere and "
            "name that folder"
        )

    @cached_property
    def _dataset(self) -> Any:
        """The split, as one of the library's datasets: streamed where it is not on this disk. Raises InputError."""
        split = self.options.split
        try:
            if self._is_saved:
                saved = _library().load_from_disk(str(self.source()), keep_in_memory=False)
                if not isinstance(saved, dict):
                    return saved
                if split not in saved:
                    raise InputError(f"{self.source()} has no split {split!r}; it has {', '.join(saved)}: see split=")
                return saved[split]
            return self._builder.as_streaming_dataset(split=split)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"{self.source()}: {_shown(error)}. See split= and config=") from error


def _library() -> Any:
    try:
        from datasets import disable_progress_bars, load_dataset_builder, load_from_disk  # noqa: F401
        from datasets.utils.logging import set_verbosity_error
    except ImportError as error:
        raise InputError(
            f"the format huggingface needs the `datasets` library ({error}): pip install 'vitalfew[huggingface]'"
        ) from error
    import datasets

    disable_progress_bars()
    set_verbosity_error()
    return datasets


def _shown(error: Exception) -> str:
    """The first line of an error of the library."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}"
