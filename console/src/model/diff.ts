// Differences between two texts and between two objects.

export type Change = "same" | "added" | "removed";
export interface Line {
  change: Change;
  text: string;
}

// Beyond this many lines on both sides together the middle is replaced whole.
const MOST_CELLS = 4_000_000;

/** Lines of both texts, with those that were removed before those that were added. */
export function diffLines(before: string, after: string): Line[] {
  const a = before.split("\n");
  const b = after.split("\n");
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1;
  const as = (change: Change) => (text: string) => ({ change, text });
  return [
    ...a.slice(0, head).map(as("same")),
    ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map(as("same")),
  ];
}

/** Longest common subsequence by its table. */
function middle(a: string[], b: string[]): Line[] {
  const lines: Line[] = [];
  const width = b.length + 1;
  const isSmall = (a.length + 1) * width <= MOST_CELLS;
  const lengths = new Uint32Array(isSmall ? (a.length + 1) * width : 0);
  for (let i = a.length - 1; isSmall && i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const skip = Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
      lengths[i * width + j] = a[i] === b[j] ? lengths[(i + 1) * width + j + 1]! + 1 : skip;
    }
  }
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (isSmall && i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ change: "same", text: a[i]! });
      i += 1;
      j += 1;
    } else if (
      i < a.length &&
      (j === b.length || !isSmall || lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!)
    ) {
      lines.push({ change: "removed", text: a[i]! });
      i += 1;
    } else {
      lines.push({ change: "added", text: b[j]! });
      j += 1;
    }
  }
  return lines;
}

export interface FieldChange {
  field: string;
  before: string;
  after: string;
}

const textOf = (value: unknown) =>
  value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 2);

/** Fields that differ, in the order of the first object. Objects are compared by their JSON. */
export function diffFields(before: object, after: object): FieldChange[] {
  const a = before as Record<string, unknown>;
  const b = after as Record<string, unknown>;
  return [...new Set([...Object.keys(a), ...Object.keys(b)])]
    .map((field) => ({ field, before: textOf(a[field]), after: textOf(b[field]) }))
    .filter(({ before, after }) => before !== after);
}
