// An engine for your tests: the real one, with the offline model `runbook`, which executes the fenced blocks of a prompt.
import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Sortie } from "./client.ts";
import { SortieError } from "./errors.ts";

const START_MS = 60_000;

export interface EngineSettings {
  /** The program. Default: that of `SORTIE_BINARY`, else `sortie` on the path. */
  binary?: string;
  /** Settings of the engine, such as `SORTIE_RATE_LIMIT_PER_MINUTE`. */
  env?: Record<string, string>;
}

/** A port that is free now. */
export const freePort = () =>
  new Promise<number>((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });

/** A running engine. The key has the role `admin`. */
export class Engine {
  readonly url: string;
  readonly #folder: string;
  readonly #binary: string;
  readonly #env: Record<string, string | undefined>;
  #process: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();

  /** Use `startEngine`. */
  constructor(port: number, folder: string, { binary, env }: EngineSettings) {
    this.url = `http://127.0.0.1:${port}`;
    this.#folder = folder;
    this.#binary = binary ?? process.env.SORTIE_BINARY ?? "sortie";
    const others = Object.entries(process.env).filter(([name]) => !name.startsWith("SORTIE_"));
    this.#env = {
      ...Object.fromEntries(others),
      SORTIE_LISTEN: `127.0.0.1:${port}`,
      SORTIE_DATA_DIR: join(folder, "data"),
      SORTIE_SANDBOX_MINIMUM: "landlock",
      SORTIE_SHUTDOWN_GRACE_SECONDS: "1",
      ...env,
    };
  }

  get apiKey(): string {
    return readFileSync(join(this.#folder, "data/admin.key"), "utf8").trim();
  }

  /** A client with the admin key. */
  client(): Sortie {
    return new Sortie({ baseUrl: this.url, apiKey: this.apiKey });
  }

  /** Starts the engine, also again after it was killed. It has the same address and data. */
  async start(): Promise<void> {
    const log = join(this.#folder, "engine.log");
    const output = openSync(log, "a");
    const child = spawn(this.#binary, ["serve"], { cwd: this.#folder, env: this.#env, stdio: ["ignore", output, output] });
    closeSync(output);
    this.#process = child;
    let failure: string | undefined;
    this.#ended = new Promise((resolve) => {
      child.once("error", (error) => {
        failure = `cannot start ${this.#binary}: ${error.message}`;
        resolve();
      });
      child.once("exit", (code) => {
        failure = `the engine ended with ${code}:\n${readFileSync(log, "utf8")}`;
        resolve();
      });
    });
    const client = new Sortie({ baseUrl: this.url, retries: 0 });
    const deadline = Date.now() + START_MS;
    for (;;) {
      try {
        await client.readiness();
        return;
      } catch (error) {
        if (failure) throw new SortieError(failure);
        if (Date.now() > deadline) {
          await this.kill();
          throw error;
        }
        await Promise.race([this.#ended, new Promise((resolve) => setTimeout(resolve, 50))]);
      }
    }
  }

  /** Kills the engine and starts it again. */
  async restart(): Promise<void> {
    await this.kill();
    await this.start();
  }

  /** Asks the engine to end, and waits for it. */
  stop(): Promise<void> {
    this.#process?.kill("SIGTERM");
    return this.#ended;
  }

  /** Ends the engine as a crash does. */
  kill(): Promise<void> {
    this.#process?.kill("SIGKILL");
    return this.#ended;
  }

  /** Ends the engine and deletes its data. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Starts an engine with empty data: `await using engine = await startEngine()`. */
export async function startEngine(settings: EngineSettings = {}): Promise<Engine> {
  const engine = new Engine(await freePort(), mkdtempSync(join(tmpdir(), "sortie-test-")), settings);
  try {
    await engine.start();
    return engine;
  } catch (error) {
    await engine[Symbol.asyncDispose]();
    throw error;
  }
}
