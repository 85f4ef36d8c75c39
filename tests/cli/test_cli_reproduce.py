"""``cr5 reproduce``: what it prints and writes, on the authors' data in miniature."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import madeup
import numpy as np
import pytest
from miniature import write_miniature
from published_files import word_vectors, write_published

from cr5 import Cr5, Document
from cr5.features.tokeniser import Tokeniser


@pytest.mark.slow
def test_the_paper_is_reproduced_on_a_miniature(tmp_path: Path, done: Callable[..., str]) -> None:
    names = {"aa": "da", "bb": "en", "cc": "vi"}
    random = np.random.default_rng(0)
    there = [d for d in madeup.corpus(concepts=500) if random.random() < 0.8]
    write_miniature(tmp_path / "data", [Document(d.concept, names[d.lang], d.text) for d in there], Tokeniser())
    given = [
        "reproduce", "wsdm19", tmp_path / "data", "--documents", "5", "1000", "--asked", "5", "1000",
        "--low-resource", "60", "--rank", "30", "--set", "min_documents=2",
    ]  # fmt: skip
    printed = done(*given, "-o", tmp_path / "out")
    assert max(map(len, printed.splitlines())) <= 80
    for title in ("(a) MUSE", "(b) joint", "(c) pairwise", "(d) pairwise training, low", "(e) transitive"):
        assert title in printed
    plain = json.loads((tmp_path / "out" / "run.json").read_text())
    [score] = [
        s for s in plain["scores"]
        if (s["regime"], s["source"], s["target"], s["measure"]) == ("transitive", "da", "vi", "cosine")
    ]  # fmt: skip
    section = printed[printed.index("(e) transitive") :]
    figures = re.findall(r"\d+\.\d", section)
    assert figures[:3] == [f"{score['precision'][k]:.1f}" for k in ("1", "5", "10")]
    assert "21.6" in section  # the paper's own
    assert "37.7" in printed[: printed.index("(b) joint")]


@pytest.mark.slow
def test_published_vectors_are_measured_beside_the_paper(
    tmp_path: Path, done: Callable[..., str], fails: Callable[..., str]
) -> None:
    names = {"aa": "da", "bb": "en"}
    documents = [d for d in madeup.corpus(concepts=300) if d.lang in names]
    write_miniature(tmp_path / "data", [Document(d.concept, names[d.lang], d.text) for d in documents], Tokeniser())
    model = Cr5("wsdm19", rank=30, ridge=1.0, idf_power=0.0, min_documents=2, min_unique=5).fit(documents)
    write_published(tmp_path / "files", "joint_4", word_vectors(model, names))
    (tmp_path / "da-en.tsv").write_text(f"{madeup.word('aa', 1)}\t{madeup.word('bb', 1)}\n", encoding="utf-8")
    given = [
        "reproduce", "wsdm19", tmp_path / "data", "--document-words", "5", "1000", "--query-words", "5", "1000",
        "--published", tmp_path / "files", "--model-name", "joint_4", "--words", tmp_path / "da-en.tsv",
    ]  # fmt: skip
    printed = done(*given, "-o", tmp_path / "out")
    assert "ours" in printed[printed.index("(b) joint") : printed.index("(c) pairwise")]
    assert "ours" not in printed[printed.index("(c) pairwise") : printed.index("(e) transitive")]
    assert "cr5 as published puts the right translation first" in " ".join(printed.split())
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"documents", "words"}
    assert set(json.loads(done(*given, "--json"))) == {"documents", "words"}
    assert "--model-name" in fails("reproduce", "wsdm19", tmp_path, "--published", tmp_path / "files")
    assert "leave them out with --published" in fails(*given, "--rank", "30")
