// JSON as pieces with a class, for display.
import { visible, type Piece } from "./ansi.ts";

const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;

export function jsonPieces(text: string): Piece[] {
  const pieces: Piece[] = [];
  let last = 0;
  const add = (piece: string, className: string) => {
    if (piece) pieces.push({ text: visible(piece), className });
  };
  for (const match of text.matchAll(TOKEN)) {
    add(text.slice(last, match.index), "");
    const [, string, colon, number] = match;
    add(string ?? match[0], string ? (colon ? "k" : "s") : number ? "n" : "k");
    if (string && colon) add(colon, "");
    last = match.index + match[0].length;
  }
  add(text.slice(last), "");
  return pieces;
}

/** The text as indented JSON, or undefined where it is none. */
export function prettyJson(text: string): string | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return undefined;
  }
}
