// In place of `node.ts` in bundles for browsers, which have no files.
import { SortieError } from "./errors.ts";

const refuse = (): never => {
  throw new SortieError("paths and streams need Node, Deno or Bun: in a browser, pass a Blob or take the bytes");
};

export const createPartialFile = refuse;
export const createDigest = refuse;
export const openBlob = refuse;
