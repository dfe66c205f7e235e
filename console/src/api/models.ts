// The catalogue of models, loaded once.
import { call, type Api } from "./client.ts";

let catalogue: Promise<Api.ModelCatalog> | undefined;

export function loadModels(): Promise<Api.ModelCatalog> {
  catalogue ??= call("GET /v1/models").catch((error: unknown) => {
    catalogue = undefined;
    throw error;
  });
  return catalogue;
}
