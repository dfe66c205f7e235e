// Files and digests of Node, Deno and Bun. Bundles for browsers have `node.browser.ts` in its place.

/** A file that appears when it is complete. */
export interface PartialFile {
  write(chunk: Uint8Array): Promise<void>;
  /** Gives the file its name. */
  complete(): Promise<void>;
  /** Deletes what was written. */
  discard(): Promise<void>;
}

export async function createPartialFile(target: string | URL): Promise<PartialFile> {
  const { open, rename, unlink } = await import("node:fs/promises");
  const { randomUUID } = await import("node:crypto");
  const path = await pathOf(target);
  // In the folder of the target, so that it can be renamed.
  const partial = `${path}.${randomUUID()}`;
  const file = await open(partial, "wx");
  return {
    write: (chunk) => file.writeFile(chunk),
    complete: async () => {
      await file.close();
      await rename(partial, path);
    },
    discard: async () => {
      await file.close();
      await unlink(partial);
    },
  };
}

/** A SHA-256 of content that comes in pieces. */
export async function createDigest(): Promise<{ update(chunk: Uint8Array): void; hex(): string }> {
  const { createHash } = await import("node:crypto");
  const digest = createHash("sha256");
  return { update: (chunk) => void digest.update(chunk), hex: () => digest.digest("hex") };
}

/** The content of a file, and its name. */
export async function openBlob(file: string | URL): Promise<[content: Blob, name: string]> {
  const { openAsBlob } = await import("node:fs");
  const { basename } = await import("node:path");
  const path = await pathOf(file);
  return [await openAsBlob(path), basename(path)];
}

async function pathOf(file: string | URL): Promise<string> {
  const { fileURLToPath } = await import("node:url");
  return file instanceof URL ? fileURLToPath(file) : file;
}
