// Requests as the transport sends them.

/** A value as one part of a path. `fetch` would resolve `.` and `..`, to the path of another operation. */
export function part(value: string): string {
  if (value === "" || value === "." || value === "..") throw new TypeError(`"${value}" is no ID and no name`);
  return encodeURIComponent(value);
}

/** A value as the rest of a path, with its slashes. */
export const parts = (value: string) => value.split("/").map(part).join("/");

/** A query as the API reads it: lists with commas, times in RFC 3339, a parameter `metadata.KEY` for each key of an object. */
export function queryOf(query: object): string {
  const pairs = pairsOf(query).map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(textOf(value))}`);
  return pairs.length ? `?${pairs.join("&")}` : "";
}

const pairsOf = (query: object, prefix = ""): [string, unknown][] =>
  Object.entries(query).flatMap(([name, value]): [string, unknown][] => {
    if (value === undefined) return [];
    const isMap = typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
    return isMap ? pairsOf(value, `${prefix}${name}.`) : [[prefix + name, value]];
  });

const textOf = (value: unknown): string =>
  Array.isArray(value) ? value.map(textOf).join(",") : value instanceof Date ? value.toISOString() : String(value);
