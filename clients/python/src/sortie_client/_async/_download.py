"""Downloads that continue where they broke off, and are checked against their SHA-256."""

from __future__ import annotations

import hashlib
import secrets
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING

from .. import _policy as policy
from .._errors import APIError, ConnectionError, SortieError, Timeout
from .._request import Request
from . import _io

if TYPE_CHECKING:
    from ._transport import AsyncTransport


async def download(transport: AsyncTransport, path: str, to: Path | str | IO[bytes] | None) -> bytes | None:
    """Returns the content, or writes it to a path or a stream."""
    if to is None:
        buffer = BytesIO()
        await _copy(transport, path, buffer)
        return buffer.getvalue()
    if not isinstance(to, (str, Path)):
        await _copy(transport, path, to)
        return None
    target = Path(to)
    # In the folder of the target, so that it can be renamed.
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with partial.open("xb") as file:
            await _copy(transport, path, file)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return None


async def _copy(transport: AsyncTransport, path: str, file: IO[bytes]) -> None:
    digest = hashlib.sha256()
    written = 0
    tag = ""
    attempt = 0
    while True:
        # If-Match: the rest has to be that of the same content.
        rest = {"Range": f"bytes={written}-", "If-Match": tag} if written else {}
        headers = {"Accept": "*/*", "Accept-Encoding": "identity", **rest}
        try:
            async with transport.open(Request("GET", path, headers=headers), transport.settings.timeout) as response:
                tag = response.headers.get("etag", "")
                # A proxy may answer the whole content.
                skipped = 0 if response.status_code == 206 else written
                async for chunk in response.aiter_bytes():
                    if skipped:
                        dropped = min(skipped, len(chunk))
                        skipped -= dropped
                        chunk = chunk[dropped:]
                    await _io.write(file, chunk)
                    digest.update(chunk)
                    written += len(chunk)
                    attempt = 0
            break
        except (ConnectionError, Timeout) as error:
            failure: SortieError = error
            retry_after = None
        except APIError as error:
            if error.status == 416 and written:
                # The connection broke after the last byte.
                break
            if not policy.is_retryable(error.status, repeatable=True):
                raise
            failure, retry_after = error, error.retry_after
        attempt += 1
        pause = policy.delay(attempt, retry_after)
        if pause is None or attempt > transport.settings.retries:
            raise failure
        await _io.sleep(pause)
    if tag.removeprefix("W/").strip('"') != digest.hexdigest():
        raise SortieError(f"{path} arrived with other content than the engine has: its SHA-256 differs")
