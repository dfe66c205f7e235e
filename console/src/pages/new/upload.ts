// Files for a run: small texts go along with the request, everything else is uploaded first.
import { ApiError, apiBase, type Api } from "../../api/client.ts";

const INLINE = 256 * 1024;

/** The text of a file that may go along with the request. */
export async function inlineText(file: File): Promise<string | undefined> {
  if (file.size > INLINE) return undefined;
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}

/** Uploads a file, and tells how much of it has gone. `fetch` has no progress of uploads. */
export function upload(file: File, onProgress: (part: number) => void, signal: AbortSignal): Promise<Api.File> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const form = new FormData();
    form.append("file", file);
    // Names are unique in an organization; the path in the run stays as it is.
    form.append("name", `${Date.now().toString(36)}-${file.name}`);
    request.open("POST", `${apiBase}/v1/files`);
    request.setRequestHeader("X-Sortie-Console", "1");
    request.responseType = "json";
    request.upload.onprogress = ({ loaded, total }) => onProgress(loaded / total);
    request.onload = () => {
      const body = request.response as (Api.File & Api.ErrorBody) | null;
      if (request.status < 300 && body) resolve(body);
      else
        reject(
          new ApiError(
            request.status,
            body?.code ?? "unavailable",
            body?.error ?? `the engine answered ${request.status}`,
          ),
        );
    };
    request.onerror = () => reject(new ApiError(0, "offline", "the engine cannot be reached"));
    request.onabort = () => reject(new DOMException("aborted", "AbortError"));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}
