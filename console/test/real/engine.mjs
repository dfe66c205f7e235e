// The real binary, with its data in a folder of its own. `SORTIE_BINARY` names another one than target/debug/sortie.
import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../../..");
export const BINARY = process.env.SORTIE_BINARY ?? join(ROOT, "target/debug/sortie");
const POSTGRES = process.env.SORTIE_TEST_POSTGRES_URL;
const START_MS = 60_000;
/** Requests a minute of a credential. */
const RATE_LIMIT = 2000;

/** A port that is free now. */
export const freePort = () =>
  new Promise((resolve, reject) => {
    const server = createServer().on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

/** A new database of the server in SORTIE_TEST_POSTGRES_URL, or a file in the folder. */
function databaseOf(folder) {
  if (!POSTGRES) return `sqlite:${folder}/sortie.db`;
  const name = `console_${randomBytes(6).toString("hex")}`;
  execFileSync("psql", ["--quiet", "--command", `CREATE DATABASE ${name}`, POSTGRES]);
  return POSTGRES.replace(/\/[^/]*$/, `/${name}`);
}

/**
 * Starts an engine. `config` is TOML, `env` has further settings. Its address stays the same when it restarts.
 */
export async function startEngine({ config = "", env = {} } = {}) {
  if (!existsSync(BINARY)) throw new Error(`${BINARY} is not built: cargo build -p sortie`);
  const folder = mkdtempSync(join(tmpdir(), "sortie-console-"));
  const port = await freePort();
  const file = join(folder, "sortie.toml");
  writeFileSync(file, config);
  const settings = {
    ...process.env,
    SORTIE_CONFIG: file,
    SORTIE_DATABASE_URL: databaseOf(folder),
    SORTIE_DATA_DIR: join(folder, "data"),
    SORTIE_LISTEN: `127.0.0.1:${port}`,
    SORTIE_SANDBOX_MINIMUM: "landlock",
    SORTIE_SHUTDOWN_GRACE_SECONDS: "1",
    SORTIE_RATE_LIMIT_PER_MINUTE: String(RATE_LIMIT),
    SORTIE_ANONYMOUS_RATE_LIMIT_PER_MINUTE: "10000",
    ...env,
  };
  let child;
  let log = "";

  const start = () =>
    new Promise((resolve, reject) => {
      let isReady = false;
      const timer = setTimeout(() => reject(new Error(`the engine did not start:\n${log}`)), START_MS);
      child = spawn(BINARY, ["serve"], { env: settings, stdio: ["ignore", "pipe", "pipe"] });
      const onText = (text) => {
        log += text;
        if (isReady || !log.includes("listening on http://")) return;
        isReady = true;
        clearTimeout(timer);
        resolve();
      };
      for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", onText);
      child.once("exit", (code) => isReady || reject(new Error(`the engine exited with ${code}:\n${log}`)));
    });

  const stop = async (signal = "SIGTERM") => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  };

  await start();
  const origin = `http://127.0.0.1:${port}`;
  const keyFile = join(folder, "data/admin.key");
  const key = existsSync(keyFile) ? readFileSync(keyFile, "utf8").trim() : undefined;

  /** Sends a request with the admin key, and returns its JSON. Fails where the engine refuses. */
  const api = async (name, body, headers = {}) => {
    const [method, path] = name.split(" ");
    const response = await fetch(origin + path, {
      method,
      headers: {
        Authorization: `Bearer ${key}`,
        Accept: "application/json",
        "Content-Type": "application/json",
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${name} answered ${response.status}: ${text}`);
    return text ? JSON.parse(text) : undefined;
  };

  return {
    origin,
    port,
    key,
    folder,
    api,
    start,
    stop,
    signal: (name) => child.kill(name),
    log: () => log,
    /** Starts a run and returns its ID. */
    run: async (request) => (await api("POST /v1/runs", request)).id,
    /** Starts runs that answer at once, each with the prompt of its number. */
    answers: (count, promptOf = () => "", more = {}) =>
      Promise.all(
        Array.from({ length: count }, (_, number) =>
          api("POST /v1/runs", { prompt: `${promptOf(number)}\n\n\`\`\`answer\nok\n\`\`\``, model: "runbook", ...more }),
        ),
      ),
    /** Waits until a run is final. */
    ended: async (id) => {
      for (;;) {
        const run = await api(`GET /v1/runs/${id}?wait=20&output=false`);
        if (run.finished_at) return run;
      }
    },
    /** Runs a command of the command line with the engine's key, and returns its output. */
    cli: (...args) =>
      execFileSync(BINARY, args, {
        env: { ...settings, SORTIE_URL: origin, SORTIE_API_KEY: key },
        encoding: "utf8",
      }),
    close: async () => {
      await stop("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
      const panic = log.split("\n").find((line) => /\bpanicked\b/.test(line));
      if (panic) throw new Error(`the engine panicked: ${panic}`);
    },
  };
}
