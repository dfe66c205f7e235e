// The same request as a command.

interface Request {
  method: string;
  path: string;
  body?: unknown;
}

/** Quotes a word for the shell. */
const quote = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

export function curl({ method, path, body }: Request, origin: string): string {
  const parts = ["curl -sS --fail-with-body"];
  if (method !== "GET" && !(method === "POST" && body !== undefined)) parts.push(`-X ${method}`);
  parts.push(quote(origin + path), '-H "Authorization: Bearer $SORTIE_API_KEY"');
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'", `-d ${quote(JSON.stringify(body))}`);
  return parts.join(" \\\n  ");
}

// Options of `sortie run` with one value, by the field of the request.
const OPTIONS = {
  workflow: "--workflow",
  model: "--model",
  fallback_model: "--fallback-model",
  description: "--description",
  instructions: "--instructions",
  effort: "--effort",
  timeout_seconds: "--timeout",
  max_cost_micros: "--max-cost",
  max_steps: "--max-steps",
  input: "--input",
  input_schema: "--input-schema",
  output_schema: "--output-schema",
};

/** Values of options that are not the text of the field. */
const VALUES: Partial<Record<string, (value: unknown) => string>> = {
  max_cost_micros: (micros) => `${Number(micros) / 1_000_000}usd`,
  input: JSON.stringify,
  input_schema: JSON.stringify,
  output_schema: JSON.stringify,
};

interface CliRequest {
  prompt?: string;
  shell?: boolean;
  web?: unknown;
  zero_data_retention?: boolean;
  tags?: string[];
  metadata?: Record<string, string>;
  files?: { path: string }[];
}

/** `sortie run` for a request, and the fields that the command has no option for. */
export function cli(request: CliRequest): { command: string; leftOut: string[] } {
  const fields = request as Record<string, unknown>;
  const parts = ["sortie run"];
  for (const [field, flag] of Object.entries(OPTIONS)) {
    const value = fields[field];
    if (value === undefined) continue;
    parts.push(`${flag} ${quote((VALUES[field] ?? String)(value))}`);
  }
  for (const tag of request.tags ?? []) parts.push(`--tag ${quote(tag)}`);
  for (const [key, value] of Object.entries(request.metadata ?? {})) {
    parts.push(`--metadata ${quote(`${key}=${value}`)}`);
  }
  for (const { path } of request.files ?? []) parts.push(`--file ${quote(path)}`);
  if (request.shell === false) parts.push("--no-shell");
  if (request.web === true) parts.push("--web");
  if (request.zero_data_retention) parts.push("--zero-data-retention");
  if (request.prompt !== undefined) parts.push(`-- ${quote(request.prompt)}`);
  const known = [...Object.keys(OPTIONS), "tags", "metadata", "files", "shell", "zero_data_retention", "prompt"];
  if (request.web === true) known.push("web");
  const leftOut = Object.keys(fields).filter(
    (field) => !known.includes(field) && fields[field] !== undefined && fields[field] !== false,
  );
  return { command: parts.join(" \\\n  "), leftOut };
}
