"""Datasets of the Hugging Face hub, or local folders in its layout, through the `datasets` library.

Deviations from `datasets.load_dataset`: this reads only text, JSON, CSV, Parquet and Arrow files, because other readers
of the library may unpickle what they read; it never runs code that comes with a dataset (the library refuses that too).
"""

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from vitalfew.configs.installing import install_command
from vitalfew.tasks.datasets.base import InputError, OptionalName, Reject
from vitalfew.tasks.datasets.files import check_source
from vitalfew.tasks.datasets.tables import BATCH_ROWS, ColumnsDataset, TableOptions, present_columns, rows_of

_READERS = {"arrow", "cache", "csv", "json", "parquet", "text"}
_SAVED, _SAVED_SPLITS = "state.json", "dataset_dict.json"


class HuggingFaceDataset(ColumnsDataset):
    """Passages, or questions, of a dataset on the Hugging Face hub, or of a folder laid out like one.

    `NAME` or `OWNER/NAME` on the hub, which is streamed instead of downloaded as a whole; or a folder with data files
    (Parquet, JSON lines, CSV, text), or one that `save_to_disk` wrote. Columns are mapped like those of parquet. Needs
    the extra `huggingface`. The offset is the row's number.
    """

    example: ClassVar[str] = "huggingface:rajpurkar/squad?split=validation&question=question&answers=answers.text"
    takes_name: ClassVar[bool] = True

    class Options(TableOptions):
        split: str = Field("train", min_length=1, description="split of the dataset, or several: `train+test`")
        config: OptionalName = Field(None, description="configuration (subset) of the dataset, if it has several")
        revision: OptionalName = Field(
            None, description="branch, tag or commit on the hub; if not given, its latest commit"
        )

    options: Options

    def files(self) -> list[Path]:
        """Return the files of a local folder; none of a dataset on the hub, whose commit identifies it."""
        if not self._is_local:
            return []
        source = self.source()
        if self._is_saved:
            folder = source if (source / _SAVED).exists() else source / self.options.split
            saved = [Path(file["filename"]) for file in self._dataset.cache_files]
            return [*saved, *(path for name in (_SAVED, "dataset_info.json") if (path := folder / name).exists())]
        splits = self.options.split.split("+")
        data_files = self._builder.config.data_files or {}
        files = sorted(Path(path) for split, paths in data_files.items() for path in paths if str(split) in splits)
        card = source / "README.md"  # may name the files and columns of the dataset
        return [*files, card] if card.exists() else files

    def identity(self) -> dict[str, Any]:
        return {} if self._is_local else {"commit": self._builder.hash}

    def rows(self) -> Iterator[tuple[int, Any]]:
        return enumerate(self._rows(), start=1)

    def _rows(self) -> Iterator[dict[str, Any] | Reject]:
        """Yield the rows of the split, with one batch in memory at a time. Raises InputError."""
        position = 0
        dataset = self._dataset
        if dataset.column_names is not None:
            dataset = dataset.select_columns(present_columns(self.options, dataset.column_names, self.source()))
        try:
            for batch in dataset.with_format("arrow").iter(batch_size=BATCH_ROWS):
                position += batch.num_rows
                yield from rows_of(batch)
        except Exception as error:  # every reader of the library has its own errors
            raise InputError(f"{self.source()}: broken after row {position}: {_first_line(error)}") from error

    @property
    def _is_local(self) -> bool:
        return os.path.exists(self.source())

    @property
    def _is_saved(self) -> bool:
        """Return whether the source is a folder that `save_to_disk` wrote."""
        return any((self.source() / name).is_file() for name in (_SAVED, _SAVED_SPLITS))

    @cached_property
    def _builder(self) -> Any:
        """The library's description of the dataset: its files, and its commit on the hub. Raises InputError."""
        library, source = _library(), self.source()
        remedy = "Name a folder with Parquet, JSON lines, CSV or text files, or one that save_to_disk wrote"
        if not self._is_local:
            if source.is_absolute() or len(source.parts) > 2 or source.parts[0] in (".", ".."):
                check_source(source)  # not a name on the hub: the error says what is wrong with the path
            if str(source) in library.packaged_modules._PACKAGED_DATASETS_MODULES:
                # The library would search the whole working directory for files.
                raise InputError(f"{source} is a reader of the library, not a dataset: name a dataset or a folder")
            remedy = (
                f"{str(source)!r} is not a folder here, so it was looked up on the Hugging Face hub. Check the name "
                "and the network; without a network, run `hf download --repo-type dataset NAME --local-dir FOLDER` "
                "elsewhere and name that folder"
            )
        elif not os.path.isdir(source):
            raise InputError(f"{source} is a file: name its folder, or use the format of the file")
        try:
            builder = library.load_dataset_builder(
                str(source), name=self.options.config, revision=self.options.revision
            )
        except Exception as error:  # from the library, its HTTP client or its cache
            raise InputError(f"{source}: {_first_line(error)}. {remedy}") from error
        modules = [builder_class.__module__.split(".") for builder_class in type(builder).__mro__]
        readers = {names[2] for names in modules if len(names) > 3}
        if not readers & _READERS:
            raise InputError(f"{source} is {', '.join(sorted(readers))}: only {', '.join(_READERS)} are read")
        return builder

    @cached_property
    def _dataset(self) -> Any:
        """The split as a dataset of the library, streamed if it is not on this disk. Raises InputError."""
        split = self.options.split
        try:
            if not self._is_saved:
                return self._builder.as_streaming_dataset(split=split)
            saved = _library().load_from_disk(str(self.source()), keep_in_memory=False)
            if isinstance(saved, dict) and split not in saved:
                raise InputError(f"{self.source()} has no split {split!r}; it has {', '.join(saved)}: see split=")
            return saved[split] if isinstance(saved, dict) else saved
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"{self.source()}: {_first_line(error)}. See split= and config=") from error


def _library() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise InputError(
            f"the format huggingface needs the `datasets` library ({error}): {install_command('huggingface')}"
        ) from error
    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity_error()
    return datasets


def _first_line(error: Exception) -> str:
    """Return the type and the first line of an error of the library."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}"
