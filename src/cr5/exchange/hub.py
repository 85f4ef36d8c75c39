"""Models on the Hugging Face Hub: fetched language by language into its cache, and pushed with a model card."""

import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cr5.corpus.languages import find_language
from cr5.errors import Cr5Error, ModelFileError, needs_package
from cr5.exchange.model_card import CARD, check_licence, model_card, read_run
from cr5.progress import Progress, ProgressCallback, no_progress
from cr5.storage.atomic import atomic_write, replace
from cr5.storage.locks import locked
from cr5.storage.model_files import (
    check_model_folder,
    file_digest,
    is_language_file,
    language_files,
    open_model,
    save,
    verify_file,
)
from cr5.storage.model_manifest import MANIFEST, ModelFile

_LOG_IN = "log in with hf auth login, or set HF_TOKEN"


def fetch(
    repo: str,
    langs: Sequence[str] | None = None,
    *,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    progress: ProgressCallback = no_progress,
) -> Path:
    """Download a model, or some of its languages, to the hub's cache; return its folder.

    What the cache has is not downloaded again, and a file whose download was interrupted is continued. Every file is
    checked against the digest in model.json before it gets its name in the cache.
    """
    hub = _import_hub(repo)
    with _explained_errors(repo, revision):
        try:
            manifest = Path(hub.hf_hub_download(repo, MANIFEST, revision=revision, cache_dir=cache_dir))
        except hub.errors.LocalEntryNotFoundError:
            raise
        except hub.errors.EntryNotFoundError as error:
            raise Cr5Error(f"{repo} on the hub is not a cr5 model: it holds no {MANIFEST}; check the name") from error
        folder = manifest.parent  # named after the commit, so that all files are of the same one
        try:
            files = language_files(folder, None, find_language)
        except ModelFileError as error:
            _remove(manifest)
            raise ModelFileError(f"{MANIFEST} of {repo} is damaged; fetch it again, or ask for a new push") from error
        try:
            files = language_files(folder, langs, find_language)
        except ModelFileError as error:
            raise ModelFileError(str(error).replace(str(folder), repo)) from error
        for number, file in enumerate(files):
            progress(Progress("download", number, len(files), file.name))
            _fetch_file(hub, repo, folder, file, lambda bytes_so_far, number=number, file=file: progress(
                Progress("download", number + bytes_so_far / max(file.bytes, 1), len(files), file.name)
            ))  # fmt: skip
    return folder


def pull(
    repo: str,
    output: Path,
    langs: Sequence[str] | None = None,
    *,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    progress: ProgressCallback = no_progress,
) -> list[str]:
    """Download a model, or some of its languages, and save it in a folder, with its card; return its languages."""
    check_model_folder(output)
    folder = fetch(repo, langs, revision=revision, cache_dir=cache_dir, progress=progress)
    hub, opened = _import_hub(repo), open_model(folder, langs, find_language)
    report = opened.metadata["report"]
    report["languages"] = {lang: facts for lang, facts in report["languages"].items() if lang in opened.langs}
    save(output, opened.metadata, {lang: opened.language(lang) for lang in opened.langs}, opened.targets())
    with _explained_errors(repo, revision), suppress(hub.errors.EntryNotFoundError):
        card = hub.hf_hub_download(repo, CARD, revision=folder.name, cache_dir=folder.parents[2])
        with atomic_write(output / CARD) as file:
            file.write(Path(card).read_bytes())
    return opened.langs


def _fetch_file(hub: Any, repo: str, folder: Path, file: ModelFile, report: Any) -> None:
    """Download a file of a model to the cache unless it is there."""
    cached = folder / file.name
    if _is_complete(cached, file):
        return
    _remove(cached)
    cache_dir, commit = folder.parents[2], folder.name
    if hub.constants.HF_HUB_OFFLINE:
        raise Cr5Error(
            f"{file.name} of {repo} is not in the cache {cache_dir}, and HF_HUB_OFFLINE is set; unset it once"
        )
    locks = cache_dir / ".locks" / folder.parents[1].name
    locks.mkdir(parents=True, exist_ok=True)
    with locked(locks / f"{file.sha256}.cr5.lock"):
        if _is_complete(cached, file):  # another process has fetched it meanwhile
            return
        _download(hub, repo, commit, folder.parents[1] / "blobs", file, report)
        hub.hf_hub_download(repo, file.name, revision=commit, cache_dir=cache_dir)  # finds the bytes by their ETag


def _download(hub: Any, repo: str, commit: str, blobs: Path, file: ModelFile, report: Any) -> None:
    """Download a file to ``blobs``, where it is named after its ETag; continue the partial file of an earlier call."""
    from huggingface_hub.file_download import http_get

    url = hub.hf_hub_url(repo, file.name, revision=commit)
    etag = hub.get_hf_file_metadata(url).etag or ""
    if not re.fullmatch(r"[\w.-]+", etag):
        raise Cr5Error(f"the server of {repo} identifies {file.name} by the ETag {etag!r}; check HF_ENDPOINT")
    blobs.mkdir(parents=True, exist_ok=True)
    if _is_complete(blobs / etag, file) and file_digest(blobs / etag) == file.sha256:
        return  # another revision has the same file
    partial = blobs / f"{file.sha256}.cr5.incomplete"
    if partial.exists() and partial.stat().st_size > file.bytes:
        partial.unlink()
    # The hub compresses text on the way, which would make ranges those of the compressed bytes.
    headers = hub.utils.build_hf_headers(library_name="cr5") | {"Accept-Encoding": "identity"}
    try:
        with _ReportingFile(io.FileIO(partial, "ab"), report) as opened:
            http_get(url, opened, resume_size=opened.tell(), headers=headers, expected_size=file.bytes)
    except OSError as error:
        if getattr(error, "response", None) is None and error.errno is None:  # another size than model.json has
            partial.unlink()
            raise _damaged_download(repo, file) from error
        if getattr(getattr(error, "response", None), "status_code", None) == 416:
            partial.unlink()
        raise
    if file_digest(partial) != file.sha256:
        partial.unlink()
        raise _damaged_download(repo, file)
    replace(partial, blobs / etag)


class _ReportingFile(io.BufferedWriter):
    """A file that calls a function with its size after every write."""

    def __init__(self, raw: io.FileIO, report: Any) -> None:
        super().__init__(raw)
        self.report = report

    def write(self, data: Any) -> int:
        count = super().write(data)
        self.flush()
        self.report(self.tell())
        return count


def _is_complete(path: Path, file: ModelFile) -> bool:
    """Whether the cache has a file: one that is there was checked, and may only have been cut off since."""
    return path.exists() and path.stat().st_size == file.bytes


def _remove(path: Path) -> None:
    """Remove a file from the cache: the link in its snapshot, and the bytes."""
    for name in (path.resolve(), path):
        name.unlink(missing_ok=True)


def _damaged_download(repo: str, file: ModelFile) -> ModelFileError:
    return ModelFileError(
        f"{file.name} of {repo} arrived altered or cut off: it is not what {MANIFEST} describes, and was removed; "
        "fetch it again, or ask for a new push"
    )


def push(
    folder: Path,
    repo: str,
    *,
    private: bool | None = None,
    licence: str | None = None,
    evaluation: str | Path | None = None,
    revision: str | None = None,
    progress: ProgressCallback = no_progress,
) -> str:
    """Upload the model in a folder in one commit; return the address of the commit.

    The repository is created unless it exists. README.md of the folder is its model card; without one, a card is made
    of the training report, ``licence`` and the run of an ``evaluation``. The hub keeps what it has received, so that a
    push that was interrupted uploads only what is missing when it is repeated.
    """
    hub = _import_hub(repo)
    check_push(repo)
    check_licence(licence)
    opened = open_model(folder)
    files = language_files(folder)
    for number, file in enumerate(files):
        progress(Progress("check", number, len(files), file.name))
        verify_file(folder, file)
    if (folder / CARD).exists():
        if licence is not None or evaluation is not None:
            given = "licence" if licence is not None else "evaluation"
            raise Cr5Error(f"{folder / CARD} is the model card already; delete it to make one with `{given}`")
        card = (folder / CARD).read_bytes()
    else:
        run = None if evaluation is None else read_run(evaluation)
        card = model_card(opened, name=repo, repo=repo, licence=licence, run=run).encode()
    names = {file.name for file in files}
    with _explained_errors(repo, revision):
        api = hub.HfApi(library_name="cr5")
        api.create_repo(repo, private=private, exist_ok=True)
        if revision is not None:
            api.create_branch(repo, branch=revision, exist_ok=True)
        stale = [name for name in api.list_repo_files(repo, revision=revision) if is_language_file(name)]
        operations = [
            *(hub.CommitOperationAdd(name, str(folder / name)) for name in sorted(names)),
            *(hub.CommitOperationDelete(name) for name in stale if name not in names),
            hub.CommitOperationAdd(CARD, card),
            hub.CommitOperationAdd(MANIFEST, (folder / MANIFEST).read_bytes()),
        ]
        progress(Progress("upload", 0, None, repo))
        return str(api.create_commit(repo, operations, commit_message="A cr5 model", revision=revision).commit_url)


def _import_hub(repo: str) -> Any:
    with needs_package("a model on the Hugging Face Hub", "huggingface_hub", "hub"):
        import huggingface_hub
        from huggingface_hub import constants, errors, utils  # noqa: F401
    if not re.match("https?://[^/]", constants.ENDPOINT):
        raise Cr5Error(f"HF_ENDPOINT={constants.ENDPOINT!r} is not an address; write it like https://huggingface.co")
    if not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", repo, re.ASCII):
        raise Cr5Error(f"`repo={repo!r}` is not the name of a model on the hub; write it as owner/name")
    return huggingface_hub


def check_push(repo: str) -> None:
    """Raise an error, before any work is done, unless the hub's library and a token are there and the name is valid."""
    if _import_hub(repo).get_token() is None:
        raise Cr5Error(f"a push to {repo} needs a token of the hub; {_LOG_IN}")


@contextmanager
def _quietly(hub: Any) -> Iterator[None]:
    """Keep progress bars and warnings of the hub's library off the terminal, unless its variables ask for them."""
    logging = hub.utils.logging
    bars_decided = hub.utils.are_progress_bars_disabled() or hub.constants.HF_HUB_DISABLE_PROGRESS_BARS is not None
    verbosity = logging.get_verbosity()
    if "HF_HUB_VERBOSITY" not in os.environ:
        logging.set_verbosity_error()
    if not bars_decided:
        hub.utils.disable_progress_bars()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if not bars_decided:
            hub.utils.enable_progress_bars()


@contextmanager
def _explained_errors(repo: str, revision: str | None) -> Iterator[None]:
    """Turn the errors of the hub's library into one sentence each; none of them quotes a token."""
    hub = _import_hub(repo)
    errors, server = hub.errors, hub.constants.ENDPOINT
    try:
        with _quietly(hub):
            yield
    except Cr5Error:
        raise
    except errors.GatedRepoError as error:
        raise Cr5Error(
            f"{repo} is given only to people who asked for it; ask on {server}/{repo}, then {_LOG_IN}"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise Cr5Error(f"{server} has no model {repo}, or it is private; check the name, or {_LOG_IN}") from error
    except errors.RevisionNotFoundError as error:
        raise Cr5Error(f"{repo} has no `revision={revision!r}`; name a branch, a tag or a commit of it") from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        offline = hub.constants.HF_HUB_OFFLINE
        cause = "HF_HUB_OFFLINE is set; unset it once" if offline else f"{server} does not answer; try again later"
        raise Cr5Error(f"{repo} is not in the cache, and {cause}") from error
    except errors.HfHubHTTPError as error:
        raise Cr5Error(
            f"{server} answered {_status(error)} about {repo}; {_advice(error.response.status_code)}"
        ) from error
    except errors.HFValidationError as error:
        raise Cr5Error(f"`repo={repo!r}` is not the name of a model on the hub; write it as owner/name") from error
    except errors.HTTPError as error:
        raise Cr5Error(f"the connection to {server} failed; run it again to continue") from error
    except ValueError as error:  # as the library shows what the server dislikes
        raise Cr5Error(f"{repo} was refused: {' '.join(str(error).split())}; change {CARD} of the model") from error
    except RuntimeError as error:  # as the library wraps what goes wrong in an upload
        source = error.__cause__ or error
        shown = _status(source) if isinstance(source, errors.HfHubHTTPError) else type(source).__name__
        raise Cr5Error(f"the upload to {repo} failed ({shown}); run it again to continue") from error


def _status(error: Any) -> str:
    return f"{error.response.status_code} {error.response.reason_phrase}".strip()


def _advice(status: int) -> str:
    advice: Mapping[int, str] = {
        401: f"the token is not valid: {_LOG_IN}",
        403: "your token must allow to write to it: use another one, or a repository of your own",
        429: "wait a few minutes, then run it again",
    }
    return advice.get(status, "try again later")
