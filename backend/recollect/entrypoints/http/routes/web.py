"""The web page: its document at `/`, its files under `/web`."""

import gzip
from hashlib import sha256
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

router = APIRouter(include_in_schema=False)
FOLDER = Path(__file__).parents[3] / "web"
"""In a clone a link to `frontend/`; in an installed package the files themselves."""
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # No text can become markup or code, not even by a mistake in the page's own scripts.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Kept, and asked about each time: after an upgrade no old file runs beside a new one.
    "Cache-Control": "no-cache",
}
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".md": "text/plain; charset=utf-8",
    ".LICENSE": "text/plain; charset=utf-8",
}


@router.api_route("/", methods=["GET", "HEAD"])
async def document(request: Request) -> Response:
    """The page itself."""
    return await _file(request, "index.html")


@router.api_route("/web/{path:path}", methods=["GET", "HEAD"])
async def asset(request: Request, path: str) -> Response:
    """A script, a stylesheet, an icon."""
    return await _file(request, path)


async def _file(request: Request, path: str) -> Response:
    content = await run_in_threadpool(_read, path)
    if content is None:
        raise HTTPException(404)
    etag = f'"{sha256(content).hexdigest()[:20]}"'
    headers = {**_HEADERS, "ETag": etag, "Vary": "Accept-Encoding"}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["Content-Encoding"] = await run_in_threadpool(gzip.compress, content), "gzip"
    media_type = _TYPES.get(Path(path).suffix, "application/octet-stream")
    return Response(content, headers=headers, media_type=media_type)


def _read(path: str) -> bytes | None:
    """None for what is no file of the page; a way out of the folder leads nowhere."""
    if "\x00" in path:
        return None
    folder = FOLDER.resolve()
    file = (folder / path).resolve()
    if not file.is_relative_to(folder) or not file.is_file():
        return None
    return file.read_bytes()
