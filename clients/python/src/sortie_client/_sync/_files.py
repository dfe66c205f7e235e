"""Files: uploads and downloads."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING, overload

from .._lazy import LazyModule
from .._request import part
from . import _resources
from ._download import download

if TYPE_CHECKING:
    from typing import Unpack

    from .. import requests, types
else:
    types = LazyModule("sortie_client.types")


class Files(_resources.Files):
    def upload(
        self, content: Path | str | bytes | IO[bytes], /, *, name: str | None = None, content_type: str | None = None
    ) -> types.File:
        """`POST /v1/files`: uploads a file, of a path, bytes or a stream. It is sent once: a stream cannot be read again.

        `name` is that of the path by default. Bytes and streams need one.
        """
        return self._transport.upload("/v1/files", types.File, content, name, content_type)

    def keep(self, **body: Unpack[requests.KeepArtifact]) -> types.File:
        """`POST /v1/files`: keeps an artifact of a run as a file."""
        return self._call(types.File, "POST", "/v1/files", body=body, repeatable=False)

    @overload
    def download(self, file: str, /) -> bytes: ...

    @overload
    def download(self, file: str, /, to: Path | str | IO[bytes]) -> None: ...

    def download(self, file: str, /, to: Path | str | IO[bytes] | None = None) -> bytes | None:
        """`GET /v1/files/{file}/content`: the content of a file, or writes it into a file.

        The content is checked against its SHA-256. A file at a path appears when it is complete.
        """
        return download(self._transport, f"/v1/files/{part(file)}/content", to)
