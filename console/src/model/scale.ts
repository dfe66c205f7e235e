// Maps times of a run to 0..1. Long stretches without any work are drawn as a short break.
export interface Stretch {
  start: number;
  end?: number | undefined;
}

export interface Scale {
  at(time: number): number;
  timeAt(place: number): number;
  /** Places of the breaks, and the time that each leaves out. */
  breaks: { place: number; ms: number }[];
  ticks: { place: number; ms: number }[];
}

const LONGEST_GAP = 0.2;
const BREAK = 0.03;

interface Piece {
  from: number;
  to: number;
  weight: number;
  isGap: boolean;
}

/** Stretches in which nothing happens, longer than a fifth of the whole. */
function gapsOf(spans: Stretch[], start: number, end: number): [number, number][] {
  const gaps: [number, number][] = [];
  let busy = start;
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    if (span.start > end) break;
    if (span.start - busy > (end - start) * LONGEST_GAP) gaps.push([busy, span.start]);
    busy = Math.max(busy, span.end ?? end);
  }
  if (end - busy > (end - start) * LONGEST_GAP) gaps.push([busy, end]);
  return gaps;
}

export function timeScale(spans: Stretch[], start: number, end: number): Scale {
  const whole = Math.max(1, end - start);
  const pieces: Piece[] = [];
  let from = start;
  for (const [gapStart, gapEnd] of gapsOf(spans, start, end)) {
    pieces.push({ from, to: gapStart, weight: gapStart - from, isGap: false });
    pieces.push({ from: gapStart, to: gapEnd, weight: whole * BREAK, isGap: true });
    from = gapEnd;
  }
  pieces.push({ from, to: start + whole, weight: start + whole - from, isGap: false });
  const total = pieces.reduce((sum, { weight }) => sum + weight, 0);
  let place = 0;
  const placed = pieces.map((piece) => {
    const width = piece.weight / total;
    place += width;
    return { ...piece, place: place - width, width };
  });
  const at = (time: number) => {
    const piece = placed.find(({ to }) => time <= to) ?? placed.at(-1)!;
    const part = piece.to === piece.from ? 0 : (time - piece.from) / (piece.to - piece.from);
    return Math.min(1, Math.max(0, piece.place + part * piece.width));
  };
  const timeAt = (at: number) => {
    const piece = placed.find(({ place, width }) => at <= place + width) ?? placed.at(-1)!;
    return piece.width === 0 ? piece.from : piece.from + ((at - piece.place) / piece.width) * (piece.to - piece.from);
  };
  return {
    at,
    timeAt,
    breaks: placed
      .filter(({ isGap }) => isGap)
      .map(({ place, width, from, to }) => ({ place: place + width / 2, ms: to - from })),
    ticks: ticksOf(whole)
      .filter((ms) => !placed.some(({ isGap, from, to }) => isGap && start + ms > from && start + ms < to))
      .map((ms) => ({ place: at(start + ms), ms })),
  };
}

const STEPS = [10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 36e5];

/** Round times for an axis, six of them at most. */
export function ticksOf(whole: number): number[] {
  const step = STEPS.find((step) => whole / step <= 6) ?? Math.ceil(whole / 6);
  return Array.from({ length: Math.floor(whole / step) + 1 }, (_, index) => index * step);
}
