import { Files } from "./files.ts";
import { Client } from "./resources.gen.ts";
import { Runs } from "./runs.ts";
import { Transport, type Settings } from "./transport.ts";

/** A client of the engine and, on a hosted deployment, of the organization API. */
export class Sortie extends Client {
  readonly runs = new Runs(this.transport);
  readonly files = new Files(this.transport);

  constructor(settings: Settings = {}) {
    super(new Transport(settings));
  }
}
