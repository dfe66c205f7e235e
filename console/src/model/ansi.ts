// Output of commands as pieces with a class: colours as classes, other control characters as visible signs.

export interface Piece {
  text: string;
  className: string;
}

const COLOURS = ["", "ansi-red", "ansi-green", "ansi-yellow", "ansi-blue", "ansi-magenta", "ansi-cyan", ""];
// Characters that change the direction of text make it look like another.
const HIDDEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** Shows control and direction characters. */
export const visible = (text: string) =>
  text.replace(HIDDEN, (character) => {
    const code = character.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "␡" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });

function classAfter(codes: number[], before: string): string {
  let classes = new Set(before.split(" ").filter(Boolean));
  const setColour = (name: string) => {
    classes = new Set([...classes].filter((one) => one === "ansi-bold" || one === "ansi-dim"));
    if (name) classes.add(name);
  };
  for (const code of codes) {
    if (code === 0) classes.clear();
    else if (code === 1) classes.add("ansi-bold");
    else if (code === 2) classes.add("ansi-dim");
    else if (code === 22) ["ansi-bold", "ansi-dim"].forEach((name) => classes.delete(name));
    else if (code === 39) setColour("");
    else if (code === 90) setColour("ansi-dim");
    else if ((code >= 30 && code <= 37) || (code >= 91 && code <= 97)) setColour(COLOURS[code % 10]!);
    // 256 colours and true colours have arguments that are no codes.
    else if (code === 38 || code === 48) break;
  }
  return [...classes].join(" ");
}

export function ansiPieces(output: string): Piece[] {
  const pieces: Piece[] = [];
  let className = "";
  let last = 0;
  const add = (text: string) => {
    if (text)
      pieces.push({
        text: visible(
          text
            .replaceAll("\r\n", "\n")
            .replace(/\r(?=.)/g, "\n")
            .replaceAll("\r", ""),
        ),
        className,
      });
  };
  for (const match of output.matchAll(/\u001b\[([\d;]*)([A-Za-z])/g)) {
    add(output.slice(last, match.index));
    last = match.index + match[0].length;
    if (match[2] === "m") className = classAfter((match[1] || "0").split(";").map(Number), className);
  }
  add(output.slice(last));
  return pieces;
}
