export type * from "./api.gen.ts";
export { Sortie } from "./client.ts";
export type { DownloadOptions } from "./download.ts";
export * from "./errors.ts";
export { type UploadOptions } from "./files.ts";
export { Pages, type Page } from "./pages.ts";
export type { CreateOptions, OutputSchema, RunOptions, WaitOptions } from "./runs.ts";
export { RunStream, type LiveMessage, type StreamOptions } from "./stream.ts";
export type { CallOptions, Settings } from "./transport.ts";
