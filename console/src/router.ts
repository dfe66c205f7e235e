// The address as a signal. Every page, tab, filter and selection has an address.
import { computed, signal } from "@preact/signals";
import { pageBase } from "./api/client.ts";

const read = () => new URL(window.location.href);
const current = signal(read());

addEventListener("popstate", () => (current.value = read()));

/** The path below the console, such as "/runs/run_1". */
export const path = computed(() => current.value.pathname.slice(pageBase.length).replace(/\/$/, "") || "/runs");
export const query = computed(() => current.value.searchParams);

export const href = (to: string) => pageBase + to;

export function navigate(to: string, { replace = false } = {}) {
  const url = href(to);
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  const before = current.value.pathname;
  current.value = read();
  if (current.value.pathname !== before) scrollTo(0, 0);
}

/** Changes parts of the query; undefined removes a part. */
export function setQuery(changes: Record<string, string | undefined>, { replace = true } = {}) {
  const next = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined) next.delete(name);
    else next.set(name, value);
  }
  setSearch(next, { replace });
}

export function setSearch(next: URLSearchParams, { replace = true } = {}) {
  navigate(path.value + (next.size ? `?${next}` : ""), { replace });
}

/** Follows links to pages of the console without loading the page anew. */
addEventListener("click", (event) => {
  const link = (event.target as Element).closest?.("a");
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (
    !link ||
    !isPlain ||
    event.defaultPrevented ||
    link.target ||
    link.download ||
    link.origin !== window.location.origin
  )
    return;
  if (!link.pathname.startsWith(`${pageBase}/`)) return;
  event.preventDefault();
  navigate(link.pathname.slice(pageBase.length) + link.search);
});

/** The parts of a path that a pattern such as "/runs/:id" names. */
export function matchPath(pattern: string, path: string): Record<string, string> | undefined {
  const wanted = pattern.split("/");
  const found = path.split("/");
  if (wanted.length !== found.length) return undefined;
  const parts: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    if (part.startsWith(":")) parts[part.slice(1)] = decodeURIComponent(found[index]!);
    else if (part !== found[index]) return undefined;
  }
  return parts;
}
