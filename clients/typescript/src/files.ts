// Files: uploads and downloads.
import type * as Api from "./api.gen.ts";
import { download, downloadTo, type DownloadOptions } from "./download.ts";
import { openBlob } from "./node.ts";
import { part } from "./request.ts";
import * as resources from "./resources.gen.ts";
import type { CallOptions } from "./transport.ts";

export interface UploadOptions extends CallOptions {
  /** Name of the file. A path has one; other content needs it. */
  name?: string;
}

export class Files extends resources.Files {
  /**
   * `POST /v1/files`: uploads a file, of a path (with Node, Deno or Bun), a `Blob`, bytes or a stream, which is read as a whole.
   * An upload is never repeated. `timeoutMs` limits the whole upload; by default only the wait for the answer is limited.
   */
  async upload(
    content: string | URL | Blob | Uint8Array | ReadableStream<Uint8Array>,
    { name, ...options }: UploadOptions = {},
  ): Promise<Api.File> {
    let blob: Blob;
    let fileName = name;
    if (content instanceof Blob) {
      blob = content;
      fileName ??= (content as { name?: string }).name;
    } else if (content instanceof Uint8Array) {
      blob = new Blob([content as BlobPart]);
    } else if (content instanceof ReadableStream) {
      blob = await new Response(content).blob();
    } else {
      const [opened, ownName] = await openBlob(content);
      blob = opened;
      fileName ??= ownName;
    }
    if (!fileName) throw new TypeError("name: is needed for content without a path");
    const form = new FormData();
    form.set("file", blob, fileName);
    return this.transport.upload("/v1/files", form, options);
  }

  /** `POST /v1/files`: keeps an artifact of a run as a file. */
  keep(body: Api.KeepArtifact, options: CallOptions = {}): Promise<Api.File> {
    return this.transport.json("POST", "/v1/files", { repeatable: false, body, ...options });
  }

  /** `GET /v1/files/{file}/content`: the content of a file, checked against its SHA-256, or writes it. */
  download(file: string, options: DownloadOptions): Promise<void>;
  download(file: string, options?: CallOptions & { to?: undefined }): Promise<Uint8Array>;
  download(file: string, options: CallOptions & { to?: DownloadOptions["to"] | undefined } = {}): Promise<Uint8Array | void> {
    const { to, ...others } = options;
    const path = `/v1/files/${part(file)}/content`;
    return to === undefined ? download(this.transport, path, others) : downloadTo(this.transport, path, { to, ...others });
  }
}
