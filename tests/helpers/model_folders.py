"""Small models in folders, and what changes their files."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cr5.errors import ModelFileError
from cr5.storage import model_manifest
from cr5.storage.language_map import LanguageMap, SubwordMap
from cr5.storage.model_files import open_model

HEADER = {"settings": {"rank": 3, "ridge": 0.1}, "report": [1.5, None, "größer"], "ok": True}
Model = tuple[dict[str, Any], dict[str, LanguageMap]]


def language(seed: int, words: int = 5, rank: int = 3) -> LanguageMap:
    draw = np.random.default_rng(seed).standard_normal
    return LanguageMap(
        [f"wörd{seed}字{i}" for i in range(words)],
        draw(words).astype(np.float32),
        draw((words, rank)).astype(np.float32),
        draw(rank).astype(np.float32),
    )


def with_ngrams(seed: int, ngrams: int = 4) -> LanguageMap:
    plain = language(seed, words=7)
    draw = np.random.default_rng(seed).random
    own = SubwordMap(
        [f"<字{seed}{i}" for i in range(ngrams)],
        draw(ngrams).astype(np.float32),
        draw((ngrams, 3)).astype(np.float16),
        draw(1).astype(np.float32),
        draw(7).astype(np.float32),
    )
    return replace(plain, subwords=own)


def model(seed: int) -> Model:
    return {**HEADER, "seed": seed}, {"de": language(seed), "zh-Hant": with_ngrams(seed + 1)}


def assert_same(path: Path, expected: Model) -> None:
    folder = open_model(path)
    header, languages = expected
    assert folder.metadata == header
    assert folder.langs == list(languages)
    for lang, saved in languages.items():
        found = folder.language(lang)
        assert found.words == saved.words
        for name in ("idf", "map", "offset"):
            np.testing.assert_array_equal(getattr(found, name), getattr(saved, name), strict=True)
        assert (found.subwords is None) == (saved.subwords is None)
        if found.subwords and saved.subwords:
            assert found.subwords.ngrams == saved.subwords.ngrams
            for name in ("weights", "map", "scale", "squares"):
                got, expected = getattr(found.subwords, name), getattr(saved.subwords, name)
                np.testing.assert_array_equal(got, expected, strict=True)


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


def file_of(path: Path, lang: str, which: str) -> Path:
    index = json.loads((path / "model.json").read_text())
    return path / str(index["languages"][lang]["files"][which]["name"])


def edit(path: Path, change: Callable[[dict[str, Any]], object], *, sign: bool = False) -> None:
    """Change model.json; with ``sign`` as somebody would who recomputes its digest."""
    content = json.loads((path / "model.json").read_text())
    change(content)
    if sign:
        content.pop("sha256")
        content["sha256"] = model_manifest.digest(content)
    (path / "model.json").write_text(json.dumps(content))


def forge(path: Path, which: str, content: bytes) -> Path:
    """Put other content into a file of "de", with every size and digest right."""
    file = file_of(path, "de", which)
    file.write_bytes(content)
    record = {"name": file.name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    edit(path, lambda index: index["languages"]["de"]["files"].update({which: record}), sign=True)
    return file


def fails(message: str) -> Any:
    return pytest.raises(ModelFileError, match=f"^{re.escape(message)}$")


def damaged(folder: Path, message: str) -> str:
    """What is said about a damaged file of the language de, which the other language can do without."""
    advice = f"or do without de: cr5 model subset {folder} --langs zh-Hant -o NEW"
    return f"the language de is damaged: {message}; {advice}"
