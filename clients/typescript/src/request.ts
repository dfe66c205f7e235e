// Requests as the transport sends them.

/** A value as one part of a path. `fetch` would resolve `.` and `..`, to the path of another operation. */
export function part(value: string): string {
  if (value === "" || value === "." || value === "..") throw new TypeError(`"${value}" is no ID and no name`);
  return encodeURIComponent(value);
}

/** A value as the rest of a path, with its slashes. */
export const parts = (value: string) => value.split("/").map(part).join("/");

/** A query as the API reads it: lists with commas, times in RFC 3339. */
export function queryOf(query: object): string {
  const pairs = Object.entries(query)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(textOf(value))}`);
  return pairs.length ? `?${pairs.join("&")}` : "";
}

const textOf = (value: unknown): string =>
  Array.isArray(value) ? value.map(textOf).join(",") : value instanceof Date ? value.toISOString() : String(value);
